// What came of a case.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compare.hpp"
#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// What is wrong, as a word that scripts may rely on (docs/plugin-check.md) and a sentence.
struct Finding {
    std::string check;
    std::string message;
};

struct Outcome {
    enum class Kind {
        ran,
        declined, // by the implementation: UNSUPPORTED
        skipped,  // by the op: no such call
    };
    Kind kind = Kind::ran;
    std::string reason; // of what did not run
    bool compared = false;
    std::vector<Finding> findings;
    std::map<std::string, double> errors; // by output
    uint64_t configs = 0;                 // tried
    uint64_t configs_left_out = 0;        // the time was up
};

std::string status_text(opdock_status status, const std::string &message);

// Whether an implementation declined with it, when no other is asked.
bool is_decline(opdock_status status);

// What was not prepared or run: the implementation's right, or a fault. `is_call`: the reference computes it, so that
// it is a call of the op.
void take_status(Outcome &outcome, opdock_status status, const std::string &message, bool is_call);

// Each kind of finding once for a case: the second run seldom has news.
void add_new(Outcome &outcome, std::vector<Finding> findings);

bool has(const Outcome &outcome, const char *check);

bool same_bits(const std::vector<Output> &a, const std::vector<Output> &b);

} // namespace opdock::plugin_check
