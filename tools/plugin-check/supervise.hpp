// Tries all cases of an implementation, and goes on after those that end its process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "own_references.hpp"
#include "pinned.hpp"
#include "trial.hpp"

namespace opdock::plugin_check {

struct Limits {
    double case_seconds = 60; // a case that takes longer hangs
    int most_deaths = 3;      // after so many the rest of an implementation is left out
};

// What is to be tried.
struct Plan {
    Subject subject;
    std::vector<std::string> modules; // that its process opens
    uint64_t seed = 0;
    int64_t only = -1; // this case alone; -1: all
    Pins pins;
    Settings settings; // but what is pinned
};

// Called with how many cases of how many are done, and how many seconds the next one has taken; false ends it.
using Progressed = std::function<bool(size_t done, size_t total, double seconds)>;

// Throws cli::UsageError for pins that the op does not have. One implementation of one op: {"op", "impl_id", "device",
// "dtypes": [...], "deterministic", "batch_invariant", "has_reference", "cases", "calls", "ran", "declined", "skipped",
// "most_elements", "most_dims", "compared", "configs", "configs_left_out", "seconds", "declines": {reason: how often},
// "worst": {"bf16": {"output": relative error}}, "findings": [{"check", "message", "case", "label", "dtypes", "also":
// in how many more cases, "also_dtypes": with which others}], "notes": [text]}. Each check has one finding, of its
// smallest case.
nlohmann::json check_implementation(const std::string &program, OwnReferences &own, const Plan &plan,
                                    const Limits &limits, const Progressed &progressed);

} // namespace opdock::plugin_check
