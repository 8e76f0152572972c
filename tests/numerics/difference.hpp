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
// on both sides and in the same way, whatever the tolerance. One element may be off by `expected.step`: a factor's last
// digit decides to which of two neighbours of 8 bits a product is rounded, which is much of the norm of a few elements.
Difference compare(const Output &expected, const std::vector<double> &found);

} // namespace numerics
