// Shadow runs (the variable SHADOW): for some calls, a second implementation computes the same on the
// CPU, on copies of the call's inputs, and the results are compared. The program's memory and results
// are unaffected. Calls that are written to files (the variable CALL_FILES) take the same path.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "load/token.hpp"
#include "opdock/plugin.h"

namespace opdock::core {

struct ShadowRule {
    std::string op; // empty: every op
    Order order;    // its first implementation that takes the call is the shadow
    uint64_t one_in = 1000;
    bool drops = false; // implementations that disagree leave their chain
};

// Parses "gelu=impl:reference.cpp@1/100,drop;all=reference": PER_OP syntax followed by a rate, the
// word "drop", or both. Throws Error(OPDOCK_INVALID_POLICY).
std::vector<ShadowRule> parse_shadow_rules(std::string_view value, const Place &place);

// The op's own rule, else the rule for all ops, else null.
const ShadowRule *shadow_rule_for(std::span<const ShadowRule> rules, std::string_view op);

struct CallNumbers;

// State of an attempt whose calls have shadows or are written to files.
struct Shadow {
    const ShadowRule *rule = nullptr;     // null: no shadows
    const CallNumbers *written = nullptr; // null: no call is written by its number
    opdock_kernel kernel = nullptr;       // serves the program
    std::atomic<uint64_t> calls{0};
};

// The kernel for such an attempt, found through the problem. The first call has a shadow, then one in every `one_in`.
opdock_status run_with_shadow(const opdock_problem *problem, const opdock_call *call);

} // namespace opdock::core
