// What a host offers to plugins that run on a GPU: memory in stream order, and to be told when work has run.
#pragma once

#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlpack/dlpack.h>

#include "opdock/opdock.hpp"

namespace gpu_tests {

// By an op of this program whose kernel copies through memory of the host's allocator and asks to be told; called while
// `stream` is held up, and captured. What is wrong, a sentence each.
std::vector<std::string> try_extensions(const opdock::Host &host, DLDevice device, cudaStream_t stream);

} // namespace gpu_tests
