// The host's cost of a launch with and without opdock, and the device's cost of a captured graph.
#pragma once

#include <string>

#include <cuda_runtime_api.h>
#include <nlohmann/json_fwd.hpp>

#include "opdock/opdock.hpp"

namespace gpu_tests {

// Microseconds ("call") of a launch of an empty kernel, of a prepared call, and of a call by handle, of `op`
// on vectors of 1024 f32; and ("graph") of a replay of a graph of 100 captured calls, and of a hand-made
// graph of the same kernels with the same parameters. See race(). "problems": defects of the captured graph,
// which must have one kernel per call and nothing else. Throws if `impl_id` does not take such a call.
nlohmann::json measure_cost(const opdock::Host &host, const std::string &op, const std::string &impl_id,
                            DLDevice device, cudaStream_t stream, int rounds);

} // namespace gpu_tests
