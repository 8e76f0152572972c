// Summary of the rounds of a measurement.
#pragma once

#include <cstddef>
#include <vector>

namespace opdock::cli {

struct Summary {
    double median = 0;
    double low = 0;  // first quartile
    double high = 0; // third quartile
    size_t samples = 0;

    // The interquartile range as a fraction of the median.
    double spread() const { return median > 0 ? (high - low) / median : 0; }
};

// All zeros without samples. Quartiles between two samples are interpolated.
Summary summarize(std::vector<double> samples);

} // namespace opdock::cli
