// The call itself: tensors made ready, the op called and timed, and what served it.
#pragma once

#include <string>

#include "arguments.hpp"
#include "opdock/opdock.hpp"
#include "outcome.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

// Reads or makes up the inputs, and allocates the outputs that the signature infers from them. Throws opdock::Error and
// files::Error.
CallTensors make_tensors(const Op &op, const Request &request, const Signature &signature, const Arguments &arguments);

// Throws opdock::Error, and cli::Failure for an --impl that is not there. With `request.repeat` the inputs that the op
// writes are put back before each call, outside of what is timed.
Outcome call(const Host &host, const Request &request, const Signature &signature, const Arguments &arguments,
             CallTensors &tensors);

// plugin-run makes its tensors in the host's memory. Throws cli::Failure for any device but the CPU.
void check_device(const std::string &device);

} // namespace opdock::plugin_run
