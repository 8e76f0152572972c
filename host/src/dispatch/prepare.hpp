// A prepared call: one attempt, ready, owned by the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "dispatch/attempt.hpp"
#include "opdock/opdock.h"
#include "policy/policy.hpp"
#include "signature/call_shape.hpp"

namespace opdock::core {

class Host;
struct OpEntry;

struct Prepared : opdock_prepared {
    Prepared(Host &host, std::unique_ptr<CallShape> of, std::unique_ptr<Attempt> chosen);

    std::unique_ptr<CallShape> shape; // outlives the attempt
    std::unique_ptr<Attempt> attempt;
    uint64_t generation;
    const std::atomic<uint64_t> *current_generation;
};

// Chooses as a call would, asking `supports` too. `policy` may be null. Throws Error.
std::unique_ptr<Prepared> prepare(OpEntry &op, const opdock_args &args, const PolicyPtr &policy);

// What a run that returned `status` said of it, taken from the thread.
std::string failed_run_text(const Prepared &prepared, opdock_status status);
std::string too_few_pointers_text(const Prepared &prepared, uint64_t given);

} // namespace opdock::core
