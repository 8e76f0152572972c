// Elements of an output that result from rows of one magnitude.
#pragma once

#include <vector>

#include "compare.hpp"
#include "inputs.hpp"

namespace opdock::plugin_check {

// The usual rows of an output of `count` elements with as many for each row of the input; empty for any other.
std::vector<Part> usual_rows(const std::vector<Magnitude> &magnitudes, size_t count);

// The parts of an output of `count` elements with as many for each row of the input; any other is one part.
std::vector<Part> parts_of(const std::vector<Magnitude> &magnitudes, size_t count);

} // namespace opdock::plugin_check
