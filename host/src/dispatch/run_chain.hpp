// Tries the implementations of a chain in order until one serves the call.
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
    const Uncancellable &host_work; // active around the call
    std::optional<Count> fallback;  // why the call was not served by an earlier choice, as far as is known
};

// True if the head of the chain served before too and nothing else has happened: there is nothing to note.
inline bool serves_steadily(const Memo &memo, const Attempt &attempt) {
    return memo.chain.serving.load(std::memory_order_relaxed) == &attempt.implementation &&
           !attempt.deployment.has_failures() && !memo.chain.retry_at;
}

// The kernel of a plain attempt, wrapped to make its device current; used by quick calls. If the
// device cannot be made current, the call's tensors are unchanged (OPDOCK_FAILED_CLEAN).
opdock_status run_on_device(const opdock_problem *problem, const opdock_call *call);

// `head_status`: the status of the first implementation, already tried. Throws Error when nothing serves.
opdock_status run_chain(Run &run, const opdock_status *head_status = nullptr);

} // namespace opdock::core
