// Difference between an output and the expected one.
#pragma once

#include <string>
#include <vector>

#include "cases.hpp"

namespace numerics {

struct Difference {
    double error = 0;    // ||found - expected|| / max(||expected||, scale), over the elements that are finite in both
    std::string message; // empty if the output is within its tolerance
};

// An error no larger than rounding to f16's smallest numbers is accepted. Non-finite elements must agree on both sides,
// whatever the tolerance. One element may be off by `expected.step`: a factor's last digit can decide to which of two
// neighbouring 8-bit values a product is rounded, and that is large compared with the norm of a few elements.
Difference compare(const Output &expected, const std::vector<double> &found);

} // namespace numerics
