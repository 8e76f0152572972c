// A kernel launched as a program without a host would launch it, to compare with.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace gpu_tests {

// The parameters and the grid of a kernel that adds vectors, and nothing done.
cudaError_t launch_empty(const float *a, const float *b, float *output, int64_t count, float alpha,
                         cudaStream_t stream);

} // namespace gpu_tests
