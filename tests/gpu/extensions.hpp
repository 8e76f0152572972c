// The host's extensions for plugins on a GPU: stream-ordered memory, and notification when work has completed.
#pragma once

#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlpack/dlpack.h>

#include "opdock/opdock.hpp"

namespace gpu_tests {

// Tests them with an op of this program, whose kernel copies through allocated memory and requests a
// notification. It is called while `stream` is blocked, and under capture. Returns one sentence per problem.
std::vector<std::string> try_extensions(const opdock::Host &host, DLDevice device, cudaStream_t stream);

} // namespace gpu_tests
