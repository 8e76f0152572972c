// Turns errors of the CUDA runtime into exceptions.
#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

namespace gpu_tests {

// Throws std::runtime_error with the runtime's message.
inline void check_cuda(const char *what, cudaError_t error) {
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
                                 ")");
    }
}

} // namespace gpu_tests
