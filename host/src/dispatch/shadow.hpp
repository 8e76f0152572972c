// Shadow runs (the variable SHADOW): of some calls, a second implementation computes the same on the CPU, on copies of
// what the call reads, and both results are compared. The program's memory and results are untouched. Calls that are
// written to files (the variable CALL_FILES) go the same way.
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
    Order order;    // whose first implementation that takes the call is the shadow
    uint64_t one_in = 1000;
    bool drops = false; // what it disagrees with leaves its chain
};

// "gelu=impl:reference.cpp@1/100,drop;all=reference", as PER_OP with a rate behind it, the word "drop", or both. Throws
// Error(OPDOCK_INVALID_POLICY).
std::vector<ShadowRule> parse_shadow_rules(std::string_view value, const Place &place);

// The op's own, or the one for all; null: none.
const ShadowRule *shadow_rule_for(std::span<const ShadowRule> rules, std::string_view op);

struct CallNumbers;

// Of an attempt whose calls have shadows, or are written to files.
struct Shadow {
    const ShadowRule *rule = nullptr;     // null: they have none
    const CallNumbers *written = nullptr; // null: none is written because of its number
    opdock_kernel kernel = nullptr;       // that serves the program
    std::atomic<uint64_t> calls{0};
};

// The kernel for such an attempt, which it finds by the problem. The first call has a shadow, and then one in so many.
opdock_status run_with_shadow(const opdock_problem *problem, const opdock_call *call);

} // namespace opdock::core
