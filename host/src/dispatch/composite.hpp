// Kernels that call other ops, by name or as parts prepared with their plan.
#pragma once

#include "opdock/plugin.h"

namespace opdock::core {

// `from`: the problem that the calling kernel was given.
opdock_status call_from_kernel(const opdock_problem *from, const char *op, const opdock_args *args);

// The table of the extension OPDOCK_COMPOSITE.
extern const opdock_composite composite_extension;

} // namespace opdock::core
