#include "significance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <boost/math/distributions/hypergeometric.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace opdock::plugin_bisect {
namespace {

uint64_t count_of(const Sample &sample) {
    return static_cast<uint64_t>(std::llround(std::accumulate(sample.values.begin(), sample.values.end(), 0.0)));
}

// The total probability of the tables with the same margins that are at most as probable as this one.
double fisher(const Sample &one, const Sample &other) {
    const uint64_t counted = count_of(one);
    const uint64_t drawn = one.of * one.values.size();
    const uint64_t all = drawn + other.of * other.values.size();
    const uint64_t all_counted = counted + count_of(other);
    if (all_counted == 0 || all_counted == all || drawn == 0 || drawn == all) {
        return 1;
    }
    const boost::math::hypergeometric_distribution<double> tables(
        static_cast<unsigned>(all_counted), static_cast<unsigned>(drawn), static_cast<unsigned>(all));
    const uint64_t least = all_counted + drawn > all ? all_counted + drawn - all : 0;
    const double of_this = boost::math::pdf(tables, counted);
    double p = 0;
    for (uint64_t k = least; k <= std::min(all_counted, drawn); ++k) {
        const double of_k = boost::math::pdf(tables, k);
        constexpr double rounding = 1 + 1e-7;
        p += of_k <= of_this * rounding ? of_k : 0;
    }
    return std::min(p, 1.0);
}

// The squared standard error of the mean.
double error_of(const Sample &sample) {
    const double mean = sample.mean();
    const double squares =
        std::accumulate(sample.values.begin(), sample.values.end(), 0.0,
                        [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
    const auto count = static_cast<double>(sample.values.size());
    return squares / (count - 1) / count;
}

std::optional<double> welch(const Sample &one, const Sample &other) {
    if (one.values.size() < 2 || other.values.size() < 2) {
        return {};
    }
    const double a = error_of(one);
    const double b = error_of(other);
    const double difference = std::abs(one.mean() - other.mean());
    if (a + b == 0) { // a program whose scores never vary
        return difference == 0 ? 1 : 0;
    }
    const double freedom =
        (a + b) * (a + b) /
        (a * a / static_cast<double>(one.values.size() - 1) + b * b / static_cast<double>(other.values.size() - 1));
    const boost::math::students_t_distribution<double> distribution(freedom);
    return 2 * boost::math::cdf(boost::math::complement(distribution, difference / std::sqrt(a + b)));
}

} // namespace

double Sample::mean() const {
    return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string name_of(Method method) {
    return method == Method::fisher ? "Fisher's exact test" : "Welch's t-test";
}

Method method_for(const Sample &sample) {
    return sample.of != 0 ? Method::fisher : Method::welch;
}

std::optional<double> p_value(const Sample &one, const Sample &other) {
    return one.of != 0 ? std::optional(fisher(one, other)) : welch(one, other);
}

} // namespace opdock::plugin_bisect
