// Launches a kernel as a program without a host would, for comparison.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace gpu_tests {

// A kernel with the parameters and the grid of one that adds vectors, but which does nothing.
cudaError_t launch_empty(const float *a, const float *b, float *output, int64_t count, float alpha,
                         cudaStream_t stream);

} // namespace gpu_tests
