// A one-line summary of a tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "op-call/tensor.hpp"

namespace opdock::plugin_run {

using op_call::HostTensor;

struct Summary {
    static constexpr size_t n_first = 5;

    size_t not_finite = 0; // infinities and NaNs, excluded from the next three
    std::optional<double> min;
    std::optional<double> max;
    std::optional<double> mean;
    std::vector<double> first;
};

Summary summarize(const HostTensor &tensor);

// "min -3.1  max 3.2  mean 0.01  first 0.1 0.2 0.3"
std::string to_text(const Summary &summary);

// Six significant digits.
std::string number_text(double value);

} // namespace opdock::plugin_run
