#include <algorithm>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

Status scaled_softmax_forward(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const double scale = call.get_float(0);
        std::vector<double> z;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(input.row(r), z);
            double largest = -std::numeric_limits<double>::infinity();
            for (double &element : z)
                largest = std::max(largest, element *= scale);
            double sum = 0;
            for (double &element : z)
                sum += element = std::exp(element - largest);
            const auto to = output.row(r);
            for (std::int64_t i = 0; i < to.size(); ++i)
                to[i] = rounded<T>(z[static_cast<std::size_t>(i)] / sum);
        }
        return Status();
    });
}

Status scaled_softmax_backward(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto output = call.input<const T>(1);
        const auto grad_input = call.output<T>(0);
        const double scale = call.get_float(0);
        for (std::int64_t r = 0; r < grad.rows(); ++r) {
            const auto g = grad.row(r);
            const auto y = output.row(r);
            const auto to = grad_input.row(r);
            double sum = 0;
            for (std::int64_t i = 0; i < g.size(); ++i)
                sum += wide(g[i]) * wide(y[i]);
            for (std::int64_t i = 0; i < g.size(); ++i)
                to[i] = rounded<T>(scale * wide(y[i]) * (wide(g[i]) - sum));
        }
        return Status();
    });
}

} // namespace reference
