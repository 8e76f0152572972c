// The call itself: tensors made ready, the op called and timed, and what served it.
#pragma once

#include <string>

#include "arguments.hpp"
#include "opdock/opdock.hpp"
#include "outcome.hpp"
#include "replay.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

// Reads or makes up the inputs, and allocates the outputs that the signature infers from them, as `replayed` has them.
// Throws opdock::Error and files::Error.
CallTensors make_tensors(const Op &op, const Request &request, const Signature &signature, const Arguments &arguments,
                         const std::optional<CallFile> &replayed);

// The tensors are copied to the device and what the op writes back, outside of what is timed; the time includes what
// the device does. Throws opdock::Error, and cli::Failure for an --impl that is not there. With `request.repeat` the
// inputs that the op writes are put back before each call, outside of what is timed.
Outcome call(const Host &host, const Request &request, DLDevice device, const Signature &signature,
             const Arguments &arguments, CallTensors &tensors);

} // namespace opdock::plugin_run
