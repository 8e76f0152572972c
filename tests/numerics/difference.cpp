#include "difference.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "opdock/abi/dtype.h"

namespace numerics {

namespace {

bool same_kind(double expected, double found) {
    if (std::isfinite(expected) || std::isfinite(found))
        return std::isfinite(expected) && std::isfinite(found);
    return std::isnan(expected) ? std::isnan(found) : expected == found;
}

std::string position(std::size_t at, const std::vector<std::int64_t> &shape) {
    std::string text;
    for (std::size_t d = shape.size(); d-- > 0; at /= static_cast<std::size_t>(shape[d]))
        text = std::to_string(at % static_cast<std::size_t>(shape[d])) + (text.empty() ? "" : ", ") + text;
    return "[" + text + "]";
}

} // namespace

Difference compare(const Output &expected, const std::vector<double> &found) {
    std::ostringstream message;
    message << "output '" << expected.name << "': ";
    const auto describe = [&](std::size_t at) {
        message << " at " << position(at, expected.shape) << ": expected " << expected.expected[at] << ", found "
                << found[at];
    };

    // Unavoidable rounding to f16's smallest numbers, which matters if all values are tiny. The smallest numbers of f32
    // and bf16 are never reached.
    const double unavoidable = expected.dtype == OPDOCK_F16 ? 0x1p-25 : 0;
    double squares = 0, expected_squares = 0, worst = -1;
    std::size_t worst_at = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double reference = expected.expected[i];
        if (!same_kind(reference, found[i])) {
            message << "NaN or infinity on one side only";
            describe(i);
            return {INFINITY, message.str()};
        }
        if (!std::isfinite(reference))
            continue;
        const double off = std::max(std::abs(found[i] - reference) - unavoidable, 0.0);
        squares += off * off;
        expected_squares += reference * reference;
        if (off > worst) {
            worst = off;
            worst_at = i;
        }
    }
    if (worst > 0 && worst <= expected.step * std::abs(expected.expected[worst_at]))
        squares = std::max(squares - worst * worst, 0.0);
    if (squares == 0)
        return {};
    Difference difference;
    difference.error = std::sqrt(squares) / std::max(std::sqrt(expected_squares), expected.scale);
    if (!(difference.error <= expected.tolerance)) {
        message << "relative error " << difference.error << ", at most " << expected.tolerance << " is allowed; worst";
        describe(worst_at);
        difference.message = message.str();
    }
    return difference;
}

} // namespace numerics
