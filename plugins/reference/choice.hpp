// Indices of experts and of rows: selection and validation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "opdock/plugin.hpp"

namespace reference {

// Checks that every index is in [0, count). Called before anything is written.
template<class Index>
opdock::Status check_indices(opdock::TensorView<const Index> indices, std::int64_t count) {
    for (std::int64_t i = 0; i < indices.numel(); ++i)
        if (indices[i] < 0 || indices[i] >= count)
            return opdock::invalid_argument("indices: row " + std::to_string(i / indices.size(-1)) + " has " +
                                            std::to_string(indices[i]) + "; expected 0 <= index < " +
                                            std::to_string(count));
    return {};
}

// Positions of the logits in descending order: NaN first, ties by index.
inline std::vector<std::int32_t> order_of(const std::vector<double> &logits) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto key = [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; };
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return key(a) > key(b) || (std::isnan(key(a)) && !std::isnan(key(b)));
    });
    return order;
}

} // namespace reference
