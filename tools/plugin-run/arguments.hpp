// A request matched with the op's signature: the arguments of the call, and the outputs to show and write.
#pragma once

#include <optional>
#include <vector>

#include "op-call/arguments.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

using op_call::FilePart;
using op_call::Signature;

// A tensor to show after the call, and perhaps to write.
struct Target {
    size_t element = 0; // index in a list parameter
    std::optional<FilePart> file;
};

struct Arguments : op_call::Arguments {
    // For each parameter, the tensors that --output names. `mut` inputs are allowed too.
    std::vector<std::vector<Target>> written_inputs;
    std::vector<std::vector<Target>> outputs;
};

// Throws cli::UsageError; if something is missing, the message says what the op expects.
Arguments match(const Request &request, const Signature &signature);

} // namespace opdock::plugin_run
