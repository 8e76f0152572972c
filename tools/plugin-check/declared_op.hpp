// An op declared by its signature alone, for a host that has no plugin with it.
#pragma once

#include <string>

#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// Throws opdock::Error when the host knows the op by a signature that contradicts this one.
void declare_op(Host &host, const std::string &signature);

} // namespace opdock::plugin_check
