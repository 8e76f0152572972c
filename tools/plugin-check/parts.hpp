// Which elements of an output are results of rows of one magnitude.
#pragma once

#include <vector>

#include "compare.hpp"
#include "inputs.hpp"

namespace opdock::plugin_check {

// The rows of an output of `count` elements that has as many for each row of the input; none of any other.
std::vector<Part> usual_rows(const std::vector<Magnitude> &magnitudes, size_t count);

// Of an output of `count` elements that has as many for each row of the input; any other is one part.
std::vector<Part> parts_of(const std::vector<Magnitude> &magnitudes, size_t count);

} // namespace opdock::plugin_check
