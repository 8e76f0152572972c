// Kernels launched as a program without a host would launch them, to compare with.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace gpu_graphs {

// output[i] = a[i] + alpha * b[i].
cudaError_t launch_add(const float *a, const float *b, float *output, int64_t count, float alpha, cudaStream_t stream);

// The same parameters and grid, and nothing done.
cudaError_t launch_empty(const float *a, const float *b, float *output, int64_t count, float alpha,
                         cudaStream_t stream);

} // namespace gpu_graphs
