// Replays a call from a file (PLUGIN_CALL_FILES), and compares the result with the program's.
#pragma once

#include <optional>
#include <string>

#include "arguments.hpp"
#include "op-call/call_file.hpp"
#include "outcome.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

using op_call::CallFile;

// The request with the file's op, inputs and attributes, and its device and implementation unless the request has them.
Request request_of(const CallFile &call, Request request);

// True for outputs to show, and for optional outputs that the recorded call has.
bool is_wanted(const std::optional<CallFile> &replayed, const Arguments &arguments, const Signature &signature,
               size_t output);

// lay_out gives inputs and outputs their recorded strides; gather makes them row-major again after the call.
void lay_out(const CallFile &call, const Signature &signature, CallTensors &tensors);
void gather(CallTensors &tensors);

// The difference from another result in the file, "program." or "shadow.": nothing if the file does not have that one,
// empty if they agree up to rounding.
std::optional<std::string> difference_from(const CallFile &call, const std::string &whose, const std::string &name,
                                           const op_call::HostTensor &found);

} // namespace opdock::plugin_run
