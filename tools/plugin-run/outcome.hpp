// The tensors of a call and its result.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "op-call/call.hpp"
#include "op-call/call_file.hpp"

namespace opdock::plugin_run {

using op_call::Tensors;

struct CallTensors {
    std::vector<Tensors> inputs;  // per parameter
    std::vector<Tensors> outputs; // per parameter
};

struct Outcome {
    std::vector<std::pair<std::string, uint64_t>> served; // implementations and their calls
    double first_microseconds = 0;                        // includes resolving and preparing
    std::vector<double> microseconds;                     // of the repeated calls
    bool fell_back = false;                               // the CPU served a device's call, on copies (fallback_to_cpu)
    const op_call::CallFile *replayed = nullptr;          // null: the call is described by the command line
};

} // namespace opdock::plugin_run
