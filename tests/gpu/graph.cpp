#include "graph.hpp"

#include <dlfcn.h>

#include <memory>
#include <utility>
#include <vector>

#include <cuda.h>

namespace gpu_tests {
namespace {

// Functions of the driver. A runtime does not know another runtime's kernels, and the plugin has a runtime of its own.
struct Driver {
    decltype(&cuGraphKernelNodeGetParams) get_parameters;
    decltype(&cuGraphAddKernelNode) add_kernel;
    decltype(&cuGraphKernelNodeCopyAttributes) copy_attributes;
    decltype(&cuGetErrorName) error_name;
};

template<class Function>
void find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
        throw std::runtime_error(std::string("the driver has no function ") + name);
    }
}

const Driver &driver() {
    static const Driver found = [] {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            throw std::runtime_error(dlerror());
        }
        Driver functions;
        find(library, "cuGraphKernelNodeGetParams_v2", functions.get_parameters);
        find(library, "cuGraphAddKernelNode_v2", functions.add_kernel);
        find(library, "cuGraphKernelNodeCopyAttributes", functions.copy_attributes);
        find(library, "cuGetErrorName", functions.error_name);
        return functions;
    }();
    return found;
}

void check_driver(const char *what, CUresult result) {
    if (result != CUDA_SUCCESS) {
        const char *name = nullptr;
        static_cast<void>(driver().error_name(result, &name));
        throw std::runtime_error(std::string(what) + ": " + (name != nullptr ? name : std::to_string(result)));
    }
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
    size_t count = 0;
    check_cuda("counting a graph's nodes", cudaGraphGetNodes(graph, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    check_cuda("reading a graph's nodes", cudaGraphGetNodes(graph, nodes.data(), &count));
    return nodes;
}

cudaGraphNodeType kind_of(cudaGraphNode_t node) {
    cudaGraphNodeType kind = cudaGraphNodeTypeEmpty;
    check_cuda("asking for a node's kind", cudaGraphNodeGetType(node, &kind));
    return kind;
}

std::string name_of(cudaGraphNodeType kind) {
    switch (kind) {
    case cudaGraphNodeTypeKernel:
        return "kernel";
    case cudaGraphNodeTypeMemcpy:
        return "copy";
    case cudaGraphNodeTypeMemset:
        return "set memory";
    case cudaGraphNodeTypeHost:
        return "host function";
    case cudaGraphNodeTypeEmpty:
        return "empty";
    case cudaGraphNodeTypeMemAlloc:
        return "allocate memory";
    case cudaGraphNodeTypeMemFree:
        return "free memory";
    default:
        return "kind " + std::to_string(static_cast<int>(kind));
    }
}

struct DestroyGraph {
    void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
};

} // namespace

std::map<std::string, size_t> Graph::count_nodes() const {
    std::map<std::string, size_t> counts;
    for (const cudaGraphNode_t node : nodes_of(graph_)) {
        ++counts[name_of(kind_of(node))];
    }
    return counts;
}

cudaGraph_t Graph::chain_of_its_kernels() const {
    cudaGraph_t made = nullptr;
    check_cuda("making a graph", cudaGraphCreate(&made, 0));
    std::unique_ptr<CUgraph_st, DestroyGraph> chain(made);
    cudaGraphNode_t last = nullptr;
    for (const cudaGraphNode_t node : nodes_of(graph_)) {
        if (kind_of(node) != cudaGraphNodeTypeKernel) {
            throw std::runtime_error("a graph with a node to " + name_of(kind_of(node)) + " is no chain of kernels");
        }
        CUDA_KERNEL_NODE_PARAMS parameters = {};
        check_driver("reading a kernel's parameters", driver().get_parameters(node, &parameters));
        cudaGraphNode_t added = nullptr;
        check_driver("adding a kernel to a graph",
                     driver().add_kernel(&added, made, &last, last != nullptr ? 1 : 0, &parameters));
        check_driver("copying how a kernel is launched", driver().copy_attributes(added, node));
        last = added;
    }
    return chain.release();
}

void Graph::instantiate(cudaError_t ended) {
    try {
        check_cuda("ending a capture", ended);
        check_cuda("instantiating a graph", cudaGraphInstantiate(&executable_, graph_, 0));
    } catch (...) {
        discard();
        throw;
    }
}

void Graph::discard() {
    if (executable_ != nullptr) {
        cudaGraphExecDestroy(std::exchange(executable_, nullptr));
    }
    if (graph_ != nullptr) {
        cudaGraphDestroy(std::exchange(graph_, nullptr));
    }
}

} // namespace gpu_tests
