// A prepared call: one attempt, ready, owned by the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/attempt.hpp"
#include "opdock/opdock.h"
#include "policy/policy.hpp"
#include "signature/call_shape.hpp"

namespace opdock::core {

class CallHost;
struct OpEntry;

struct Prepared : opdock_prepared {
    // `args` are those that the call was prepared with.
    Prepared(CallHost &host, std::unique_ptr<CallShape> of, std::unique_ptr<Attempt> chosen, const opdock_args &args);

    std::unique_ptr<CallShape> shape; // outlives the attempt
    std::unique_ptr<Attempt> attempt;
    // For each tensor that the kernel knows the place of its pointer among the caller's, or none. Empty where both have
    // the same order.
    std::vector<uint32_t> sources;
    static constexpr uint32_t none = UINT32_MAX;
    uint64_t generation;
    const std::atomic<uint64_t> *current_generation;
};

// Chooses as a call would, asking `supports` too. `policy` may be null. Throws Error.
std::unique_ptr<Prepared> prepare(OpEntry &op, const opdock_args &args, const PolicyPtr &policy);

// What a run that returned `status` said of it, taken from the thread.
std::string failed_run_text(const Prepared &prepared, opdock_status status);
// A run with a workspace of the host's. Throws Error where the call has another number of pointers than the prepared
// one, or where there is no workspace to be had.
opdock_status run_incomplete(const Prepared &prepared, const opdock_call &call);

} // namespace opdock::core
