// Tries all cases of an implementation, and continues after those that end its process.
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
    double case_seconds = 60; // a case that takes longer is a hang
    int most_deaths = 3;      // after this many the rest of an implementation is left out
};

// The cases to try.
struct Plan {
    Subject subject;
    std::vector<std::string> modules; // opened by its process
    uint64_t seed = 0;
    int64_t only = -1; // only this case; -1: all
    Pins pins;
    Settings settings; // except what is pinned
};

// Called with the number of cases done, their total, and the seconds that the next one has taken; false ends it.
using Progressed = std::function<bool(size_t done, size_t total, double seconds)>;

// Throws cli::UsageError for pins that the op does not have. Returns, for one implementation of one op: {"op",
// "impl_id", "device", "dtypes": [...], "deterministic", "batch_invariant", "has_reference", "cases", "calls", "ran",
// "declined", "skipped", "most_elements", "most_dims", "compared", "configs", "configs_left_out", "seconds",
// "declines": {reason: count}, "worst": {"bf16": {"output": relative error}}, "findings": [{"check", "message", "case",
// "label", "dtypes", "also": number of further cases, "also_dtypes": their other dtypes}], "notes": [text]}. Each check
// has one finding, for its smallest case.
nlohmann::json check_implementation(const std::string &program, OwnReferences &own, const Plan &plan,
                                    const Limits &limits, const Progressed &progressed);

} // namespace opdock::plugin_check
