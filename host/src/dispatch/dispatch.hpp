// A single call, from the handle to the kernel's status.
#pragma once

#include <optional>
#include <string>

#include "dispatch/call_counts.hpp"
#include "dispatch/memo.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

// The `call` member of every Target of a host.
opdock_status call_target(const opdock_target *target, opdock_op *handle, const opdock_args *args);

// The function for calls that look like those of this memo, whose head must be set.
QuickWay quick_way(const Memo &memo);
// The function that accepts no call.
QuickWay no_quick_way();

// A call on the long way, starting with validation. A null `target` means the op's target on this
// thread. `fallback`: why the call comes here from another device.
[[gnu::noinline]] opdock_status call_slowly(const Target *target, OpEntry &op, const opdock_args &given,
                                            std::optional<Count> fallback = {});

// Sets opdock_last_error and returns `status`.
opdock_status leave_error(opdock_status status, std::string message);

// The status and message of the exception in flight. To be called from a catch block.
opdock_status leave_current_exception() noexcept;

} // namespace opdock::core
