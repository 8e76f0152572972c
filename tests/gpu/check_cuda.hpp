// Errors of the CUDA runtime as exceptions.
#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

namespace gpu_tests {

// Throws std::runtime_error with the runtime's words.
inline void check_cuda(const char *what, cudaError_t error) {
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
                                 ")");
    }
}

} // namespace gpu_tests
