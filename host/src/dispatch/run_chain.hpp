// Trying the implementations of a chain, one after the other, until one serves the call.
#pragma once

#include <optional>

#include "dispatch/call_counts.hpp"
#include "dispatch/call_thread.hpp"
#include "dispatch/memo.hpp"
#include "load/cancellation.hpp"

namespace opdock::core {

// One call on the long way.
struct Run {
    CallHost &host;
    CallThread &thread;
    Memo &memo;
    const opdock_args &args; // with all fields
    Pointers pointers;
    const Uncancellable &host_work; // around it
    std::optional<Count> fallback;  // why it did not come first to those who are tried, as far as is known
};

// Whether the head of the chain serves calls and nothing else has happened: then there is nothing to note.
inline bool serves_steadily(const Memo &memo, const Attempt &attempt) {
    return memo.chain.serving.load(std::memory_order_relaxed) == &attempt.implementation &&
           !attempt.deployment.has_failures() && !memo.chain.retry_at;
}

// The kernel of a plain attempt while its device is current, as a kernel itself: what quick calls run there. A device
// that cannot be made current leaves the call's tensors as they were (OPDOCK_FAILED_CLEAN).
opdock_status run_on_device(const opdock_problem *problem, const opdock_call *call);

// With `head_status`, the first implementation was tried already and returned that. Throws Error when nothing serves.
opdock_status run_chain(Run &run, const opdock_status *head_status = nullptr);

} // namespace opdock::core
