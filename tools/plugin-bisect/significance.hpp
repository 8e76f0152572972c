// Whether two measurements differ by more than chance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opdock::plugin_bisect {

// What the runs under one policy gave. Where scores are counts (right answers, failed runs), each is one of `of`.
struct Sample {
    std::vector<double> values;
    uint64_t of = 0; // 0: values are no counts

    double mean() const; // of `values`; 0 without any
};

enum class Method { fisher, welch };

// "Fisher's exact test"
std::string name_of(Method method);
Method method_for(const Sample &sample);

// The probability, two-sided, of a difference at least as large where there is none: by Fisher's exact test of counts,
// by Welch's t-test of other scores. Nothing where it cannot be told: of other scores each side needs two. Both samples
// are of one kind.
std::optional<double> p_value(const Sample &one, const Sample &other);

} // namespace opdock::plugin_bisect
