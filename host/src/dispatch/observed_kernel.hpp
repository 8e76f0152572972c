// Kernels that observe another kernel: they replace an attempt's kernel when the host has a CallObserver.
#pragma once

#include "observe/observed_call.hpp"

namespace opdock::core {

// The kernel for an attempt observed in this way, which it finds through the problem. `observed` is its own.
opdock_kernel observing_kernel(ObservedCall &observed);

} // namespace opdock::core
