// --compare: what changed since an earlier document, and what only seems so.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace opdock::plugin_bench {

// Of a time before and now with their spreads: "slower", "faster", or "same" where the change is within the larger
// spread, or within 2 %, which is what a clock and the placement of code alone do. "unsure" where one of the two has
// fewer than three samples, so that nobody knows its spread.
struct Measured {
    double microseconds;
    double spread;
    uint64_t samples;
};
const char *verdict_of(const Measured &before, const Measured &now);

// A document opdock.plugin-bench/1 of a file. Throws cli::Failure for anything else.
nlohmann::json read_document(const std::string &path);

// {"device", "model", "cold": of before, "copy_ratio": of the copy rates, now to before, "rows": [{"label", "impl_id",
// "before", "now": microseconds or null, "ratio": now / before or null, "spread": the larger, "verdict": also "new" and
// "gone"}]}. Rows in the order of `now`, then what is gone.
nlohmann::json compare(const nlohmann::json &before, const nlohmann::json &now);

// Whether something was timed before and now.
bool compares_anything(const nlohmann::json &comparison);

// Whether something is slower and takes more than `ratio` times as long; 0: never.
bool is_too_slow(const nlohmann::json &comparison, double ratio);

} // namespace opdock::plugin_bench
