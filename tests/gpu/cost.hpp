// What a launch costs the host with opdock and without it, and what a captured graph costs the device.
#pragma once

#include <string>

#include <cuda_runtime_api.h>
#include <nlohmann/json_fwd.hpp>

#include "opdock/opdock.hpp"

namespace gpu_tests {

// Microseconds ("call") of a launch of an empty kernel, of a prepared call and of a call by handle of `op` on vectors
// of 1024 f32; and ("graph") of a replay of a graph of 100 captured calls, beside one of the same kernels with the same
// parameters that was made by hand. See race(). "problems": what is wrong with the captured graph, which has to have
// one kernel for each call and nothing else. Throws when `impl_id` does not take such a call.
nlohmann::json measure_cost(const opdock::Host &host, const std::string &op, const std::string &impl_id,
                            DLDevice device, cudaStream_t stream, int rounds);

} // namespace gpu_tests
