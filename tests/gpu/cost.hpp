// What a launch costs the host with opdock and without it.
#pragma once

#include <string>

#include <cuda_runtime_api.h>
#include <nlohmann/json_fwd.hpp>

#include "opdock/opdock.hpp"

namespace gpu_graphs {

// Microseconds of a launch of an empty kernel, of a prepared call and of a call by handle of `op` on vectors of 1024
// f32, and of a graph of 100 such nodes: medians over rounds in which all take turns, and the medians of the
// differences within each round. Throws when `impl_id` does not take such a call.
nlohmann::json measure_cost(const opdock::Host &host, const std::string &op, const std::string &impl_id,
                            DLDevice device, cudaStream_t stream, int rounds);

} // namespace gpu_graphs
