#include <algorithm>
#include <numeric>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

Status linear_fwd(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto weight = call.input<const T>(1);
        const auto bias = call.input<const T>(2);
        const auto output = call.output<T>(0);
        const std::int64_t panel_rows = call.knob(0);

        // Widening costs more than multiplying: a panel of the weight is widened once and meets every row of the input.
        std::vector<std::vector<double>> panel;
        std::vector<double> x;
        for (std::int64_t begin = 0; begin < weight.size(0); begin += panel_rows) {
            const std::int64_t end = std::min(begin + panel_rows, weight.size(0));
            panel.resize(static_cast<std::size_t>(end - begin));
            for (std::int64_t n = begin; n < end; ++n)
                widen(weight.row(n), panel[static_cast<std::size_t>(n - begin)]);
            for (std::int64_t r = 0; r < input.rows(); ++r) {
                widen(input.row(r), x);
                const auto to = output.row(r);
                for (std::int64_t n = begin; n < end; ++n) {
                    const std::vector<double> &w = panel[static_cast<std::size_t>(n - begin)];
                    const double start = bias ? wide(bias[n]) : 0;
                    to[n] = rounded<T>(std::inner_product(x.begin(), x.end(), w.begin(), start));
                }
            }
        }
        return Status();
    });
}

} // namespace reference
