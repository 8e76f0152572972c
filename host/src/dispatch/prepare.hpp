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
    // `args`: the arguments that the call was prepared with.
    Prepared(CallHost &host, std::unique_ptr<CallShape> of, std::unique_ptr<Attempt> chosen, const opdock_args &args);

    std::unique_ptr<CallShape> shape; // outlives the attempt
    std::unique_ptr<Attempt> attempt;
    // For each tensor of the kernel's form, the index of its pointer among the caller's, or none.
    // Empty if both orders are the same.
    std::vector<uint32_t> sources;
    static constexpr uint32_t none = UINT32_MAX;
    uint64_t generation;
    const std::atomic<uint64_t> *current_generation;
};

// Chooses as a call would, but also calls `supports`. `policy` may be null. Throws Error.
std::unique_ptr<Prepared> prepare(OpEntry &op, const opdock_args &args, const PolicyPtr &policy);

// The message of a run that returned `status`, taken from the thread.
std::string failed_run_text(const Prepared &prepared, opdock_status status);
// Runs with a workspace that the host provides. Throws Error if the number of pointers differs from
// that of the prepared call or if no workspace can be had.
opdock_status run_incomplete(const Prepared &prepared, const opdock_call &call);

} // namespace opdock::core
