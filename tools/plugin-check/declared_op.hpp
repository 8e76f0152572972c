// Declaration of an op by its signature alone, for a host without a plugin that has it.
#pragma once

#include <string>

#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// Throws opdock::Error if the host knows the op by a contradicting signature.
void declare_op(Host &host, const std::string &signature);

} // namespace opdock::plugin_check
