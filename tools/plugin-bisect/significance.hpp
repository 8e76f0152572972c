// Tests whether two measurements differ by more than chance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opdock::plugin_bisect {

// The results of the runs under one policy. If scores are counts (right answers, failed runs), each is out of `of`.
struct Sample {
    std::vector<double> values;
    uint64_t of = 0; // 0: values are not counts

    double mean() const; // of `values`; 0 if there are none
};

enum class Method { fisher, welch };

// "Fisher's exact test"
std::string name_of(Method method);
Method method_for(const Sample &sample);

// The two-sided probability of a difference at least this large if there is no real one: Fisher's exact test for
// counts, Welch's t-test for other scores. Nothing if it cannot be computed: other scores need two values on each side.
// Both samples must be of the same kind.
std::optional<double> p_value(const Sample &one, const Sample &other);

} // namespace opdock::plugin_bisect
