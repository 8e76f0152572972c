// What the rounds of one measurement say together.
#pragma once

#include <cstddef>
#include <vector>

namespace opdock::cli {

struct Summary {
    double median = 0;
    double low = 0;  // first quartile
    double high = 0; // third quartile
    size_t samples = 0;

    // Between the quartiles, as a fraction of the median.
    double spread() const { return median > 0 ? (high - low) / median : 0; }
};

// All zeros without samples. Quartiles lie between samples where their number asks for it.
Summary summarize(std::vector<double> samples);

} // namespace opdock::cli
