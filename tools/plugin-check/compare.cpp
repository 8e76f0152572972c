#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "op-call/element.hpp"
#include "opdock/plugin.h"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

struct Format {
    int digits; // of the significand, including the leading one
    int smallest_exponent;
    double largest;
};

Format format_of(uint32_t dtype) {
    switch (dtype) {
    case OPDOCK_F16:
        return {11, -14, 65504};
    case OPDOCK_BF16:
        return {8, -126, 3.3895313892515355e38};
    case OPDOCK_E4M3:
        return {4, -6, 448};
    case OPDOCK_E5M2:
        return {3, -14, 57344};
    case OPDOCK_E8M0:
        return {1, -127, 0x1p127};
    case OPDOCK_E2M1X2:
        return {2, 0, 6};
    case OPDOCK_F64:
        return {53, -1022, std::numeric_limits<double>::max()};
    default:
        return {24, -126, std::numeric_limits<float>::max()};
    }
}

std::vector<double> rounded(uint32_t dtype, const std::vector<double> &values) {
    std::vector<std::byte> elements(values.size() / op_call::values_in_element(dtype) * files::element_size(dtype));
    op_call::store_elements(dtype, elements.data(), values);
    return op_call::load_elements(dtype, elements.data(), values.size());
}

// True if two numbers that differ in kind (finite, infinite, NaN) are equally good: near the largest finite number,
// either kind is right.
bool both_at_limit(double found, double expected, double largest, double tolerance) {
    return !std::isnan(found) && std::signbit(found) == std::signbit(expected) &&
           std::fabs(found) >= largest * (1 - 4 * tolerance) && std::fabs(expected) >= largest * (1 - 4 * tolerance);
}

std::string number(double value) {
    std::ostringstream text;
    text.precision(7);
    text << value;
    return text.str();
}

struct Sums {
    double off = 0; // a sum of squares, as are the next two
    double expected = 0;
    double noise = 0;
    size_t count = 0;
};

class Comparison {
  public:
    Comparison(const Output &found, const std::vector<double> &expected, double tolerance, const Part &part)
        : found_(found), part_(part), values_(found_values(expected.size())), expected_(chosen(expected)),
          tolerance_(tolerance), format_(format_of(found.dtype)) {}

    Agreement run(const Noise &noise) {
        if (op_call::is_integer(found_.dtype)) {
            return equal();
        }
        std::string problem = differs_in_kind();
        if (!problem.empty()) { // an uncertain result may exceed the largest number
            noise_ = chosen(noise());
            problem = differs_in_kind();
        }
        if (problem.empty() && part_.only_kind) {
            return {};
        }
        if (problem.empty()) {
            sum();
            problem = beyond();
            if (!problem.empty()) {
                noise_ = chosen(noise());
                sum();
                problem = beyond();
            }
        }
        const double norm = std::sqrt(sums_.expected);
        Agreement agreement;
        // The error says nothing about results next to zero, or those that the reference does not know better.
        const bool says_nothing =
            problem.empty() && (!noise_.empty() || norm * tolerance_ < 16 * floor() * std::sqrt(count_of_finite()));
        agreement.error = sums_.off == 0 || says_nothing ? 0 : std::sqrt(sums_.off) / std::max(norm, 1e-300);
        agreement.worst_ulp = worst_ulp_;
        agreement.problem = std::move(problem);
        return agreement;
    }

  private:
    std::vector<double> found_values(size_t count) const {
        if (part_.elements.empty()) {
            return op_call::load_elements(found_.dtype, found_.elements.data(), count);
        }
        std::vector<double> values;
        values.reserve(part_.elements.size());
        for (const size_t i : part_.elements) {
            values.push_back(op_call::load_element(found_.dtype, found_.elements.data(), i));
        }
        return values;
    }

    std::vector<double> chosen(const std::vector<double> &all) const {
        if (part_.elements.empty()) {
            return all;
        }
        std::vector<double> values;
        values.reserve(part_.elements.size());
        for (const size_t i : part_.elements) {
            values.push_back(all[i]);
        }
        return values;
    }

    std::string at(size_t i) const {
        const size_t index =
            (part_.elements.empty() ? i : part_.elements[i]) / op_call::values_in_element(found_.dtype);
        return place_text(index, found_.shape) + " is " + number(values_[i]) + ", expected " +
               number(rounded(found_.dtype, expected_)[i]);
    }

    double count_of_finite() const { return static_cast<double>(std::max<size_t>(sums_.count, 1)); }

    // The amount that may be lost next to zero: the smallest number of f16, which hardware keeps; the smallest normal
    // number of f32 and bf16, below which the options of many compilers let numbers flush to zero.
    double floor() const {
        const bool may_flush = found_.dtype == OPDOCK_F32 || found_.dtype == OPDOCK_BF16;
        return std::ldexp(1.0, format_.smallest_exponent - (may_flush ? 0 : format_.digits - 1));
    }

    Agreement equal() const {
        Agreement agreement;
        size_t different = 0;
        size_t first = 0;
        for (size_t i = 0; i < expected_.size(); ++i) {
            if (values_[i] != expected_[i] && different++ == 0) {
                first = i;
            }
        }
        if (different != 0) {
            agreement.error = 1;
            agreement.problem = std::to_string(different) + " of " + std::to_string(expected_.size()) +
                                " elements differ: " + at(first);
        }
        return agreement;
    }

    std::string differs_in_kind() const {
        const std::vector<double> all = rounded(found_.dtype, expected_);
        for (size_t i = 0; i < expected_.size(); ++i) {
            const double expected = all[i];
            const double value = values_[i];
            const bool is_nan = std::isnan(expected_[i]);
            if ((part_.nan_for_infinite && std::isinf(expected_[i]) && std::isnan(value)) ||
                (is_nan && (part_.keeps_nan.empty() || !part_.keeps_nan[i] || std::isnan(value))) ||
                (std::isfinite(expected) && std::isfinite(value)) || expected == value ||
                may_be_infinite(i, expected) ||
                (!(part_.infinite_inputs && std::isinf(expected_[i])) &&
                 both_at_limit(value, expected_[i], format_.largest, tolerance_))) {
                continue;
            }
            return at(i);
        }
        return "";
    }

    // True if one of the two is infinite, and rounding may make the other one infinite.
    bool may_be_infinite(size_t i, double expected) const {
        const double value = values_[i];
        return !noise_.empty() && std::isinf(value) != std::isinf(expected) && !std::isnan(value) &&
               !std::isinf(expected_[i]) &&
               std::min(std::fabs(value), std::fabs(expected)) + 8 * noise_[i] >= format_.largest;
    }

    void sum() {
        sums_ = {};
        for (size_t i = 0; i < expected_.size(); ++i) {
            const double value = values_[i];
            if (!std::isfinite(expected_[i]) || !std::isfinite(value)) {
                continue;
            }
            const double off = value - expected_[i];
            sums_.off += off * off;
            sums_.expected += expected_[i] * expected_[i];
            sums_.noise += noise_.empty() ? 0 : noise_[i] * noise_[i];
            ++sums_.count;
        }
    }

    // Follows sum(). The element that is furthest off may be the only one.
    std::string beyond() {
        const double norm = std::sqrt(sums_.expected);
        const double mean = norm / std::sqrt(count_of_finite());
        const double mean_noise = std::sqrt(sums_.noise / count_of_finite());
        size_t worst = 0;
        double excess = 0;
        double furthest = -1;
        for (size_t i = 0; i < expected_.size(); ++i) {
            const double value = values_[i];
            if (!std::isfinite(expected_[i]) || !std::isfinite(value)) {
                continue;
            }
            const double off = std::fabs(value - expected_[i]);
            if (off > furthest) {
                furthest = off;
                worst_ulp_ = off / unit_in_last_place(found_.dtype, expected_[i]);
            }
            const double allowed = 16 * tolerance_ * std::max(std::fabs(expected_[i]), mean) + floor() +
                                   (noise_.empty() ? 0 : 8 * std::max(noise_[i], mean_noise));
            if (off / allowed > excess) {
                excess = off / allowed;
                worst = i;
            }
        }
        const double off = std::sqrt(sums_.off);
        const double allowed =
            tolerance_ * norm + 4 * std::sqrt(sums_.noise) + floor() * std::sqrt(static_cast<double>(sums_.count));
        if (off > allowed) {
            return "relative error " + number(off / std::max(norm, 1e-300)) + ", at most " + number(tolerance_) +
                   " is allowed; the worst: " + at(worst);
        }
        return excess > 1 ? "one element is far off: " + at(worst) : "";
    }

    const Output &found_;
    const Part &part_;
    std::vector<double> values_; // the found ones
    std::vector<double> expected_;
    double tolerance_;
    Format format_;
    std::vector<double> noise_;
    Sums sums_;
    double worst_ulp_ = 0;
};

} // namespace

size_t values_in(const Output &output) {
    return output.elements.size() / files::element_size(output.dtype) * op_call::values_in_element(output.dtype);
}

Agreement compare(const Output &found, const std::vector<double> &expected, double tolerance, const Noise &noise,
                  const Part &part) {
    return Comparison(found, expected, tolerance, part).run(noise);
}

double tolerance_for(uint32_t dtype, size_t terms) {
    switch (dtype) {
    case OPDOCK_F16:
        return 2e-3;
    case OPDOCK_BF16:
        return 1.6e-2;
    case OPDOCK_E4M3: // one step in a few elements, if the factors differ in their last digit
    case OPDOCK_E5M2:
    case OPDOCK_E8M0:
    case OPDOCK_E2M1X2:
        return 1e-2;
    default:
        return terms > (1u << 16) ? 1e-4 : 1e-5;
    }
}

std::string place_text(size_t index, const std::vector<int64_t> &shape) {
    std::string text;
    for (size_t d = shape.size(); d-- > 0;) {
        const auto size = static_cast<size_t>(std::max<int64_t>(shape[d], 1));
        text.insert(0, std::to_string(index % size) + (text.empty() ? "" : ", "));
        index /= size;
    }
    return "[" + text + "]";
}

double unit_in_last_place(uint32_t dtype, double value) {
    const Format format = format_of(dtype);
    const int exponent = value == 0 ? format.smallest_exponent : std::ilogb(value);
    return std::ldexp(1.0, std::max(exponent, format.smallest_exponent) - format.digits + 1);
}

double largest_number(uint32_t dtype) {
    return format_of(dtype).largest;
}

double smallest_normal(uint32_t dtype) {
    return std::ldexp(1.0, format_of(dtype).smallest_exponent);
}

} // namespace opdock::plugin_check
