// How far an output is from what was expected.
#pragma once

#include <string>
#include <vector>

#include "cases.hpp"

namespace numerics {

struct Difference {
    double error = 0;    // ||found - expected|| / max(||expected||, scale), over the elements that are finite in both
    std::string message; // empty when the output is as good as it must be
};

// Off by as much as rounding to the smallest numbers of f16 takes is not off. An element that is not finite must be so
// on both sides and in the same way, whatever the tolerance.
Difference compare(const Output &expected, const std::vector<double> &found);

} // namespace numerics
