// The call itself: prepares the tensors, calls and times the op, and records which implementation served it.
#pragma once

#include <string>

#include "arguments.hpp"
#include "opdock/opdock.hpp"
#include "outcome.hpp"
#include "replay.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

// Reads or generates the inputs, and allocates the outputs inferred from them, laid out as in `replayed`. Throws
// opdock::Error and files::Error.
CallTensors make_tensors(const Op &op, const Request &request, const Signature &signature, const Arguments &arguments,
                         const std::optional<CallFile> &replayed);

// Copies to and from the device are not timed; the device's work is. Throws opdock::Error, and cli::Failure if the
// implementation of --impl does not exist. With `request.repeat`, inputs that the op writes are restored before each
// call, outside of the timed part.
Outcome call(const Host &host, const Request &request, DLDevice device, const Signature &signature,
             const Arguments &arguments, CallTensors &tensors);

} // namespace opdock::plugin_run
