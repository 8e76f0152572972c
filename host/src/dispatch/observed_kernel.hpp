// Kernels that watch another one: they take the place of an attempt's kernel where the host has a CallObserver.
#pragma once

#include "observe/observed_call.hpp"

namespace opdock::core {

// The kernel for an attempt that is watched like this. It finds the attempt by the problem, whose `observed` this is.
opdock_kernel observing_kernel(ObservedCall &observed);

} // namespace opdock::core
