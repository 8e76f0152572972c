// How far an output is from the reference's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace opdock::plugin_check {

struct Output {
    std::string name;
    uint32_t dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> elements; // row-major
};

// How many numbers op_call::load_elements has of it.
size_t values_in(const Output &output);

struct Agreement {
    double error = 0;     // ||found - expected|| / ||expected||, over what is finite; 0 where that says nothing
    double worst_ulp = 0; // of the element that is furthest off, in units of its last place
    std::string problem;  // "" when it is as good as it must be
};

// By how much each element of the reference's result moves when its inputs move by the last digit of their dtype: where
// terms cancel, a result has no correct digits to lose. Asked for only when they would matter.
using Noise = std::function<std::vector<double>()>;

// Elements of an output that are judged on their own: beside results of another magnitude theirs would be lost.
struct Part {
    std::vector<size_t> elements = {}; // none: all
    bool only_kind = false;            // whether they are finite, infinite or NaN, and no more
    bool infinite_inputs = false;      // an infinity stays one: the largest finite number is none
    bool nan_for_infinite = false;     // where the reference is infinite, NaN is right as well
    std::vector<bool> keeps_nan = {};  // of the elements: where the reference is NaN, so is the result; none: nowhere
};

// `expected` is the reference's, not yet rounded to the output's dtype; where it is NaN, anything is right unless the
// part says otherwise. At most `tolerance` as a relative norm, and 16 times that in any element relative to the larger
// of it and the root mean square. Integers must be equal.
Agreement compare(const Output &found, const std::vector<double> &expected, double tolerance, const Noise &noise,
                  const Part &part = {});

// For this dtype. `terms`: how many elements a sum has at most.
double tolerance_for(uint32_t dtype, size_t terms);

// "[2, 17]", as messages name an element.
std::string place_text(size_t index, const std::vector<int64_t> &shape);

// The distance to the next larger number of this dtype; 0 for integers.
double unit_in_last_place(uint32_t dtype, double value);

// The largest finite number of this dtype.
double largest_number(uint32_t dtype);

// The smallest positive number that is not denormal.
double smallest_normal(uint32_t dtype);

} // namespace opdock::plugin_check
