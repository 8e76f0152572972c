// A request put against the op's signature: beside what a call needs, which outputs are shown and written.
#pragma once

#include <optional>
#include <vector>

#include "op-call/arguments.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

using op_call::FilePart;
using op_call::Signature;

// A tensor to be shown after the call, and perhaps written.
struct Target {
    size_t element = 0; // of a list parameter
    std::optional<FilePart> file;
};

struct Arguments : op_call::Arguments {
    // One for each parameter; what --output named. `mut` inputs may be named too.
    std::vector<std::vector<Target>> written_inputs;
    std::vector<std::vector<Target>> outputs;
};

// Throws cli::UsageError, with what the op expects when something is missing.
Arguments match(const Request &request, const Signature &signature);

} // namespace opdock::plugin_run
