#include "cudnn.hpp"

#ifndef __HIP__
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "opened_library.hpp"
#include "runtime.hpp"

namespace gpu {
namespace {

using cudnn::Attribute;
using cudnn::DataType;
using cudnn::Kind;
using cudnn::Type;

// Older versions compute some attentions incorrectly: 9.10.0 and 9.10.1 many of them, 9.14.0 windows, and those before
// 9.16 gradients if the number of keys is no multiple of 128.
constexpr size_t oldest_version = 91600;

struct CudnnLibrary {
    OpenedLibrary file = {"cuDNN", {"libcudnn.so.9"}};
    cudnn::Functions functions = {};
};

std::string version_text(size_t version) {
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
}

CudnnLibrary open_cudnn() {
    CudnnLibrary library;
    cudnn::Functions &f = library.functions;
    library.file.find("cudnnGetVersion", f.get_version);
    library.file.find("cudnnGetErrorString", f.get_error_string);
    library.file.find("cudnnGetLastErrorString", f.get_last_error_string);
    library.file.find("cudnnCreate", f.create);
    library.file.find("cudnnDestroy", f.destroy);
    library.file.find("cudnnSetStream", f.set_stream);
    library.file.find("cudnnBackendCreateDescriptor", f.create_descriptor);
    library.file.find("cudnnBackendDestroyDescriptor", f.destroy_descriptor);
    library.file.find("cudnnBackendFinalize", f.finalize);
    library.file.find("cudnnBackendSetAttribute", f.set_attribute);
    library.file.find("cudnnBackendGetAttribute", f.get_attribute);
    library.file.find("cudnnBackendExecute", f.execute);
    if (f.get_version != nullptr && f.get_version() < oldest_version) {
        library.file.refuse(version_text(f.get_version()) + " is too old: " + version_text(oldest_version) +
                            " or newer is needed");
    }
    return library;
}

const CudnnLibrary &cudnn_library() {
    static const CudnnLibrary opened = open_cudnn(); // once, by whichever thread comes first
    return opened;
}

const cudnn::Functions &api() {
    return cudnn_library().functions;
}

opdock_status code_of(cudnn::Status status) {
    if (status / 1000 == cudnn::not_supported) {
        return OPDOCK_UNSUPPORTED;
    }
    if (status == cudnn::host_allocation_failed || status == cudnn::device_allocation_failed) {
        return OPDOCK_OUT_OF_MEMORY;
    }
    if (status / 1000 == cudnn::execution_failed) {
        const cudaError_t error = cudaGetLastError(); // clears it, so that nobody else sees it
        return error == cudaSuccess ? OPDOCK_FAILED_CLEAN : status_of(error);
    }
    return OPDOCK_FAILED_CLEAN;
}

// Adds the first line of cuDNN's error message to the status.
std::string text_of(cudnn::Status status) {
    char last[256] = {};
    api().get_last_error_string(last, sizeof last);
    std::string more(last, strnlen(last, sizeof last));
    more = more.substr(0, more.find('\n'));
    return api().get_error_string(status) + (more.empty() ? "" : ", " + more);
}

opdock::Status checked(const char *what, cudnn::Status status) {
    if (status == 0) {
        return {};
    }
    std::string text = std::string(what) + ": " + text_of(status);
    return {code_of(status), std::move(text)};
}

void check(const char *what, cudnn::Status status) {
    if (status != 0) {
        const std::string text = std::string(what) + ": " + text_of(status);
        throw opdock::Failure(code_of(status), text);
    }
}

} // namespace

opdock::Status cudnn_available(DLDevice /*device*/) {
    const std::string &why_not = cudnn_library().file.why_not();
    return why_not.empty() ? opdock::Status() : opdock::unsupported(why_not);
}

opdock::Status Cudnn::open(DLDevice device, std::unique_ptr<Cudnn> &made) {
    if (opdock::Status status = cudnn_available(device); !status.ok()) {
        return status;
    }
    if (opdock::Status status = make_current(device); !status.ok()) {
        return status;
    }
    cudnn::Handle handle = nullptr;
    if (opdock::Status status = checked("starting cuDNN", api().create(&handle)); !status.ok()) {
        return status;
    }
    made.reset(new Cudnn(handle));
    return {};
}

Cudnn::~Cudnn() {
    static_cast<void>(api().destroy(handle_));
}

CudnnDescriptor::CudnnDescriptor(cudnn::Kind kind) {
    check("creating a cuDNN descriptor", api().create_descriptor(kind, &descriptor_));
}

CudnnDescriptor::~CudnnDescriptor() {
    static_cast<void>(api().destroy_descriptor(descriptor_));
}

void CudnnDescriptor::set(Attribute attribute, Type type, int64_t count, const void *values) {
    check("describing a graph to cuDNN", api().set_attribute(descriptor_, attribute, type, count, values));
}

void CudnnDescriptor::set(Attribute attribute, const CudnnDescriptor &value) {
    set(attribute, Type::descriptor, value.descriptor_);
}

void CudnnDescriptor::finalize() {
    check("describing a graph to cuDNN", api().finalize(descriptor_));
}

CudnnDims packed_strides(const CudnnDims &dims) {
    return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

CudnnTensor CudnnGraph::tensor(DataType type, const CudnnDims &dims, const CudnnDims &strides, bool is_virtual,
                               bool is_value) {
    CudnnDescriptor &tensor = add(Kind::tensor);
    tensor.set(Attribute::tensor_data_type, Type::data_type, type);
    tensor.set(Attribute::tensor_dims, Type::i64, 4, dims.data());
    tensor.set(Attribute::tensor_strides, Type::i64, 4, strides.data());
    tensor.set(Attribute::tensor_id, Type::i64, ++tensors_);
    tensor.set(Attribute::tensor_alignment, Type::i64, int64_t(16));
    if (is_virtual) {
        tensor.set(Attribute::tensor_is_virtual, Type::boolean, true);
    }
    if (is_value) {
        tensor.set(Attribute::tensor_is_by_value, Type::boolean, true);
    }
    tensor.finalize();
    return {&tensor, dims, strides};
}

CudnnTensor CudnnGraph::memory(DataType type, const CudnnDims &dims, const CudnnDims &strides) {
    const CudnnTensor made = tensor(type, dims, strides, false, false);
    memory_ids_.push_back(tensors_);
    return made;
}

CudnnTensor CudnnGraph::value(DataType type, uint32_t bits) {
    const CudnnTensor made = tensor(type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
    value_ids_.push_back(tensors_);
    values_.push_back(bits);
    return made;
}

CudnnTensor CudnnGraph::constant(float number) {
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return value(DataType::f32, bits);
}

CudnnTensor CudnnGraph::constant(int32_t number) {
    return value(DataType::i32, static_cast<uint32_t>(number));
}

CudnnTensor CudnnGraph::between(DataType type, const CudnnDims &dims) {
    return between(type, dims, packed_strides(dims));
}

CudnnTensor CudnnGraph::between(DataType type, const CudnnDims &dims, const CudnnDims &strides) {
    return tensor(type, dims, strides, true, false);
}

void CudnnGraph::operate(Kind kind, std::initializer_list<std::pair<Attribute, const CudnnDescriptor *>> parts) {
    CudnnDescriptor &operation = add(kind);
    for (const auto &[attribute, part] : parts) {
        if (part != nullptr) {
            operation.set(attribute, *part);
        }
    }
    operation.finalize();
    operations_.push_back(operation.c());
}

void CudnnGraph::pointwise(cudnn::PointwiseMode mode, const CudnnTensor &x, const CudnnTensor *b, const CudnnTensor *t,
                           const CudnnTensor &y, DataType math) {
    CudnnDescriptor &how = add(Kind::pointwise);
    how.set(Attribute::pointwise_mode, Type::pointwise_mode, mode);
    how.set(Attribute::pointwise_math_type, Type::data_type, math);
    how.finalize();
    operate(Kind::operation_pointwise, {{Attribute::operation_pointwise_descriptor, &how},
                                        {Attribute::operation_pointwise_x, x.descriptor},
                                        {Attribute::operation_pointwise_y, y.descriptor},
                                        {Attribute::operation_pointwise_b, b == nullptr ? nullptr : b->descriptor},
                                        {Attribute::operation_pointwise_t, t == nullptr ? nullptr : t->descriptor}});
}

CudnnTensor CudnnGraph::pointwise(cudnn::PointwiseMode mode, const CudnnTensor &x, DataType type) {
    const CudnnTensor y = between(type, x.dims);
    pointwise(mode, x, nullptr, nullptr, y);
    return y;
}

CudnnTensor CudnnGraph::pointwise(cudnn::PointwiseMode mode, const CudnnTensor &x, const CudnnTensor &b, DataType type,
                                  DataType math) {
    const CudnnTensor y = between(type, x.dims);
    pointwise(mode, x, &b, nullptr, y, math);
    return y;
}

CudnnTensor CudnnGraph::index(const CudnnTensor &x, int64_t dim) {
    const CudnnTensor y = between(DataType::i32, x.dims);
    CudnnDescriptor &how = add(Kind::pointwise);
    how.set(Attribute::pointwise_mode, Type::pointwise_mode, cudnn::PointwiseMode::index);
    how.set(Attribute::pointwise_math_type, Type::data_type, DataType::f32);
    how.set(Attribute::pointwise_axis, Type::i64, dim);
    how.finalize();
    operate(Kind::operation_pointwise, {{Attribute::operation_pointwise_descriptor, &how},
                                        {Attribute::operation_pointwise_x, x.descriptor},
                                        {Attribute::operation_pointwise_y, y.descriptor}});
    return y;
}

void CudnnGraph::matmul(const CudnnTensor &a, const CudnnTensor &b, const CudnnTensor &c) {
    CudnnDescriptor &how = add(Kind::matmul);
    how.set(Attribute::matmul_math_type, Type::data_type, DataType::f32);
    how.finalize();
    operate(Kind::operation_matmul, {{Attribute::operation_matmul_descriptor, &how},
                                     {Attribute::operation_matmul_a, a.descriptor},
                                     {Attribute::operation_matmul_b, b.descriptor},
                                     {Attribute::operation_matmul_c, c.descriptor}});
}

void CudnnGraph::reduce(cudnn::Reduction by, const CudnnTensor &x, const CudnnTensor &y) {
    CudnnDescriptor &how = add(Kind::reduction);
    how.set(Attribute::reduction_operator, Type::reduction, by);
    how.set(Attribute::reduction_math_type, Type::data_type, DataType::f32);
    how.finalize();
    operate(Kind::operation_reduction, {{Attribute::operation_reduction_descriptor, &how},
                                        {Attribute::operation_reduction_x, x.descriptor},
                                        {Attribute::operation_reduction_y, y.descriptor}});
}

void CudnnGraph::view(const CudnnTensor &x, const CudnnTensor &y) {
    operate(Kind::operation_reshape,
            {{Attribute::operation_reshape_x, x.descriptor}, {Attribute::operation_reshape_y, y.descriptor}});
}

CudnnPlan::CudnnPlan(const Cudnn &library, std::unique_ptr<CudnnGraph> graph) : graph_(std::move(graph)) {
    const std::lock_guard<std::mutex> lock(library.mutex());
    const std::vector<cudnn::Descriptor> &all = graph_->operations_;
    const cudnn::Handle handle = library.handle();
    operations_.set(Attribute::graph_operations, Type::descriptor, static_cast<int64_t>(all.size()), all.data());
    operations_.set(Attribute::graph_handle, Type::handle, handle);
    operations_.finalize();
    CudnnDescriptor heuristics(Kind::heuristics);
    heuristics.set(Attribute::heuristics_graph, operations_);
    heuristics.set(Attribute::heuristics_mode, Type::heuristic_mode, cudnn::HeuristicMode::a);
    heuristics.finalize();
    constexpr int64_t most = 8;
    std::array<cudnn::Descriptor, most> configs;
    for (cudnn::Descriptor &config : configs) {
        config = engine_configs_.emplace_back(Kind::engine_config).c();
    }
    int64_t found = 0;
    check("asking cuDNN for a kernel", api().get_attribute(heuristics.c(), Attribute::heuristics_results,
                                                           Type::descriptor, most, &found, configs.data()));
    const auto end = configs.begin() + std::min(found, most);
    if (std::find_if(configs.begin(), end, [&](cudnn::Descriptor config) { return make(library, config); }) == end) {
        throw opdock::Failure(OPDOCK_UNSUPPORTED, "cuDNN has no kernel for the call");
    }
}

// Returns false if cuDNN only now finds that it cannot run this engine.
bool CudnnPlan::make(const Cudnn &library, cudnn::Descriptor engine_config) {
    auto plan = std::make_unique<CudnnDescriptor>(Kind::execution_plan);
    plan->set(Attribute::plan_handle, Type::handle, library.handle());
    plan->set(Attribute::plan_engine_config, Type::descriptor, engine_config);
    if (api().finalize(plan->c()) != 0) {
        return false;
    }
    int64_t size = 0;
    check("asking cuDNN for a size",
          api().get_attribute(plan->c(), Attribute::plan_workspace_size, Type::i64, 1, nullptr, &size));
    workspace_size_ = static_cast<uint64_t>(size);
    plan_ = std::move(plan);
    return true;
}

void CudnnPlan::pack(const std::vector<void *> &pointers, void *workspace) const {
    if (last_pack_ != nullptr && last_pointers_ == pointers && last_workspace_ == workspace) {
        return;
    }
    std::vector<int64_t> ids = graph_->memory_ids_;
    std::vector<void *> all = pointers;
    ids.insert(ids.end(), graph_->value_ids_.begin(), graph_->value_ids_.end());
    for (uint32_t &value : graph_->values_) {
        all.push_back(&value);
    }
    auto pack = std::make_unique<CudnnDescriptor>(Kind::variant_pack);
    pack->set(Attribute::pack_ids, Type::i64, static_cast<int64_t>(ids.size()), ids.data());
    pack->set(Attribute::pack_pointers, Type::pointer, static_cast<int64_t>(all.size()), all.data());
    pack->set(Attribute::pack_workspace, Type::pointer, workspace);
    pack->finalize();
    last_pack_ = std::move(pack);
    last_pointers_ = pointers;
    last_workspace_ = workspace;
}

opdock::Status CudnnPlan::run(const opdock::Call &call, const Cudnn &library, const std::vector<void *> &pointers,
                              void *workspace) const {
    if (opdock::Status status = make_current(call.device()); !status.ok()) {
        return status;
    }
    const std::lock_guard<std::mutex> lock(library.mutex());
    pack(pointers, workspace);
    opdock::Status status = checked("choosing cuDNN's stream", api().set_stream(library.handle(), call.stream()));
    return status.ok() ? checked("running cuDNN", api().execute(library.handle(), plan_->c(), last_pack_->c()))
                       : std::move(status);
}

} // namespace gpu
#endif
