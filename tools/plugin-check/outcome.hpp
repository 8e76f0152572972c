// The outcome of a case.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compare.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// A fault: a word that scripts may rely on (docs/plugin-check.md), and a sentence.
struct Finding {
    std::string check;
    std::string message;
};

struct Outcome {
    enum class Kind {
        ran,
        declined, // by the implementation: UNSUPPORTED
        skipped,  // by the op: not a valid call
    };
    Kind kind = Kind::ran;
    std::string reason; // why it did not run
    bool compared = false;
    std::vector<Finding> findings;
    std::map<std::string, double> errors; // by output
    uint64_t configs = 0;                 // number tried
    uint64_t configs_left_out = 0;        // because the time was up
};

std::string status_text(opdock_status status, const std::string &message);

// True if an implementation declined with this status, when no other one is asked.
bool is_decline(opdock_status status);

// Handles a call that was not prepared or run: the implementation's right, or a fault. `is_call`: the reference
// computes the call, so it is a valid call of the op.
void take_status(Outcome &outcome, opdock_status status, const std::string &message, bool is_call);

// Adds each kind of finding once per case: the second run seldom has news.
void add_new(Outcome &outcome, std::vector<Finding> findings);

bool has(const Outcome &outcome, const char *check);

bool same_bits(const std::vector<Output> &a, const std::vector<Output> &b);

} // namespace opdock::plugin_check
