// --compare: real changes since an earlier document, as opposed to noise.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace opdock::plugin_bench {

// Compares a time before and now with their spreads: "slower", "faster", or "same" if the change is within the larger
// spread or within 2 %, which the clock and the placement of code alone can cause. "unsure" if one of the two has fewer
// than three samples, so that its spread is unknown.
struct Measured {
    double microseconds;
    double spread;
    uint64_t samples;
};
const char *verdict_of(const Measured &before, const Measured &now);

// Reads a document opdock.plugin-bench/1 from a file. Throws cli::Failure for anything else.
nlohmann::json read_document(const std::string &path);

// {"device", "model", "cold": of before, "copy_ratio": the copy rate now to the one before, "rows": [{"label",
// "impl_id", "before", "now": microseconds or null, "ratio": now / before or null, "spread": the larger, "verdict":
// also "new" and "gone"}]}. Rows are in the order of `now`, followed by those that are gone.
nlohmann::json compare(const nlohmann::json &before, const nlohmann::json &now);

// True if anything was timed both before and now.
bool compares_anything(const nlohmann::json &comparison);

// True if something is slower and takes more than `ratio` times as long; a ratio of 0 disables this.
bool is_too_slow(const nlohmann::json &comparison, double ratio);

} // namespace opdock::plugin_bench
