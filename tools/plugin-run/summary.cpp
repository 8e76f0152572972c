#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "op-call/element.hpp"

namespace opdock::plugin_run {

Summary summarize(const HostTensor &tensor) {
    Summary summary;
    double sum = 0;
    for (size_t i = 0; i < tensor.values; ++i) {
        const double value = op_call::load_element(tensor.dtype, tensor.memory.get(), i);
        if (i < Summary::n_first) {
            summary.first.push_back(value);
        }
        if (!std::isfinite(value)) {
            ++summary.not_finite;
            continue;
        }
        sum += value;
        summary.min = std::min(summary.min.value_or(value), value);
        summary.max = std::max(summary.max.value_or(value), value);
    }
    if (summary.min) {
        summary.mean = sum / static_cast<double>(tensor.values - summary.not_finite);
    }
    return summary;
}

std::string number_text(double value) {
    char text[32];
    (void)std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

std::string to_text(const Summary &summary) {
    std::string text;
    if (summary.min) {
        text = "min " + number_text(*summary.min) + "  max " + number_text(*summary.max) + "  mean " +
               number_text(*summary.mean);
    }
    if (summary.not_finite != 0) {
        text += (text.empty() ? "" : "  ") + std::string("not finite ") + std::to_string(summary.not_finite);
    }
    if (summary.first.empty()) {
        return "no elements";
    }
    text += "  first";
    for (const double value : summary.first) {
        text += " " + number_text(value);
    }
    return text;
}

} // namespace opdock::plugin_run
