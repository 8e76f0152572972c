// Comparison of an output with the reference's.
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

// The number of values that op_call::load_elements returns for it.
size_t values_in(const Output &output);

struct Agreement {
    double error = 0;     // ||found - expected|| / ||expected||, over finite elements; 0 if that says nothing
    double worst_ulp = 0; // error of the worst element, in units in its last place
    std::string problem;  // "" if the output is good enough
};

// The change in each element of the reference's result when its inputs change by the last digit of their dtype: where
// terms cancel, a result has no correct digits to lose. Computed only when it would matter.
using Noise = std::function<std::vector<double>()>;

// Elements of an output that are judged on their own: next to results of other magnitudes their errors would be lost.
struct Part {
    std::vector<size_t> elements = {}; // empty: all
    bool only_kind = false;            // compares only whether they are finite, infinite or NaN
    bool infinite_inputs = false;      // an infinity must stay one: the largest finite number is not
    bool nan_for_infinite = false;     // where the reference is infinite, NaN is right too
    std::vector<bool> keeps_nan = {};  // by element: where the reference is NaN, so is the result; empty: nowhere
};

// `expected` is the reference's, not yet rounded to the output's dtype; where it is NaN, any value is right unless the
// part says otherwise. The error's relative norm must be at most `tolerance`, and each element's error at most 16 times
// that, relative to the larger of the element and the root mean square. Integers must be equal.
Agreement compare(const Output &found, const std::vector<double> &expected, double tolerance, const Noise &noise,
                  const Part &part = {});

// The tolerance for this dtype. `terms`: the maximum number of elements in a sum.
double tolerance_for(uint32_t dtype, size_t terms);

// "[2, 17]", the form in which messages name an element.
std::string place_text(size_t index, const std::vector<int64_t> &shape);

// The distance to the next larger number of this dtype; 0 for integers.
double unit_in_last_place(uint32_t dtype, double value);

// The largest finite number of this dtype.
double largest_number(uint32_t dtype);

// The smallest positive normal number of this dtype.
double smallest_normal(uint32_t dtype);

} // namespace opdock::plugin_check
