// CUDA graphs: captured from a stream, or made by hand from the kernels of another graph.
#pragma once

#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include "check_cuda.hpp"

namespace gpu_tests {

class Graph {
  public:
    // Takes ownership of the graph.
    explicit Graph(cudaGraph_t made) : graph_(made) { instantiate(cudaSuccess); }
    // Captures one call of `fill`, which puts work on the stream. Throws if the work cannot be
    // captured.
    template<class Fill>
    Graph(cudaStream_t stream, Fill fill) {
        check_cuda("beginning a capture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        std::string failed;
        try {
            fill();
        } catch (const std::exception &error) {
            failed = error.what();
        }
        // Needed after a failure too: the stream is unusable while it is being captured.
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph_);
        if (!failed.empty()) {
            discard();
            throw std::runtime_error("while it was captured: " + failed);
        }
        instantiate(ended);
    }
    ~Graph() { discard(); }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    void launch(cudaStream_t stream) const { check_cuda("launching a graph", cudaGraphLaunch(executable_, stream)); }

    // The number of nodes of each kind, such as "kernel".
    std::map<std::string, size_t> count_nodes() const;

    // A graph of the same kernels with the same parameters, each after the preceding one, in the order in which CUDA
    // lists them. Throws if the graph has nodes of other kinds.
    cudaGraph_t chain_of_its_kernels() const;

  private:
    void instantiate(cudaError_t ended);
    void discard();

    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t executable_ = nullptr;
};

} // namespace gpu_tests
