// A call out of a file (PLUGIN_CALL_FILES), made again and compared with what it came to in the program.
#pragma once

#include <optional>
#include <string>

#include "arguments.hpp"
#include "op-call/call_file.hpp"
#include "outcome.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

using op_call::CallFile;

// The request with the file's op, inputs, attributes, and, where it has none, device and implementation.
Request request_of(const CallFile &call, Request request);

// Optional outputs that the call has are there, whether or not they are shown.
bool is_wanted(const std::optional<CallFile> &replayed, const Arguments &arguments, const Signature &signature,
               size_t output);

// Gives inputs and outputs the strides that they had, and after the call row-major order again.
void lay_out(const CallFile &call, const Signature &signature, CallTensors &tensors);
void gather(CallTensors &tensors);

// What differs from another result of the file, "program." or "shadow.": nothing where it has none, empty where they
// agree up to rounding.
std::optional<std::string> difference_from(const CallFile &call, const std::string &whose, const std::string &name,
                                           const op_call::HostTensor &found);

} // namespace opdock::plugin_run
