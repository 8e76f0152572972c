// CUDA graphs: captured from a stream, and made by hand of the kernels of another.
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
    // Takes the graph over.
    explicit Graph(cudaGraph_t made) : graph_(made) { instantiate(cudaSuccess); }
    // What becomes of one run between begin and end of a capture: `fill` puts work on the stream. Throws when it must
    // not be captured.
    template<class Fill>
    Graph(cudaStream_t stream, Fill fill) {
        check_cuda("beginning a capture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        std::string failed;
        try {
            fill();
        } catch (const std::exception &error) {
            failed = error.what();
        }
        // Also after a failure: the stream is of no use while it is captured.
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

    // How many nodes of each kind it has: "kernel".
    std::map<std::string, size_t> count_nodes() const;

    // A graph of the same kernels with the same parameters, each after the one before it, in the order in which CUDA
    // lists them. Throws when it has nodes of other kinds.
    cudaGraph_t chain_of_its_kernels() const;

  private:
    void instantiate(cudaError_t ended);
    void discard();

    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t executable_ = nullptr;
};

} // namespace gpu_tests
