#include <algorithm>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

// hidden(r, i) returns true if row r may not see key i. A row that sees nothing is all zeros.
template<class Hidden>
Status softmax(const Call &call, Hidden hidden) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const double scale = call.get_float(0);
        std::vector<double> z;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(input.row(r), z);
            const auto sees = [&](std::size_t i) { return !hidden(r, static_cast<std::int64_t>(i)); };
            double largest = -std::numeric_limits<double>::infinity();
            for (std::size_t i = 0; i < z.size(); ++i)
                if (sees(i))
                    largest = std::max(largest, z[i] *= scale);
            double sum = 0;
            for (std::size_t i = 0; i < z.size(); ++i)
                sum += z[i] = sees(i) ? std::exp(z[i] - largest) : 0;
            for (double &element : z)
                element = sum == 0 ? 0 : element / sum;
            narrow(z, output.row(r));
        }
        return Status();
    });
}

// Returns a predicate: true if key i comes after the key that row r is aligned with. The last row has the last key.
auto later_keys(const DLTensor &input) {
    const std::int64_t queries = input.shape[input.ndim - 2];
    const std::int64_t keys = input.shape[input.ndim - 1];
    return [=](std::int64_t r, std::int64_t i) { return i > r % queries + keys - queries; };
}

Status softmax_gradient(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
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

Status log_softmax_fwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        std::vector<double> z;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            widen(input.row(r), z);
            double largest = -std::numeric_limits<double>::infinity();
            for (const double element : z)
                largest = std::max(largest, element);
            double sum = 0;
            for (const double element : z)
                sum += std::exp(element - largest);
            for (double &element : z)
                element = element - largest - std::log(sum);
            narrow(z, output.row(r));
        }
        return Status();
    });
}

Status log_softmax_bwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto output = call.input<const T>(1);
        const auto grad_input = call.output<T>(0);
        for (std::int64_t r = 0; r < grad.rows(); ++r) {
            const auto g = grad.row(r);
            const auto y = output.row(r);
            const auto to = grad_input.row(r);
            double sum = 0;
            for (std::int64_t i = 0; i < g.size(); ++i)
                sum += wide(g[i]);
            for (std::int64_t i = 0; i < g.size(); ++i)
                to[i] = rounded<T>(wide(g[i]) - std::exp(wide(y[i])) * sum);
        }
        return Status();
    });
}

Status scaled_softmax_fwd(const Call &call) {
    return softmax(call, [](std::int64_t, std::int64_t) { return false; });
}
Status scaled_masked_softmax_fwd(const Call &call) {
    const auto mask = call.input<const std::uint8_t>(1);
    const std::int64_t heads = call.input(0)->shape[1];
    const std::int64_t queries = call.input(0)->shape[2];
    return softmax(call, [=](std::int64_t r, std::int64_t i) {
        const std::int64_t batch = mask.size(0) == 1 ? 0 : r / (heads * queries);
        return mask(batch, 0, r % queries, i) != 0;
    });
}
Status scaled_upper_triang_masked_softmax_fwd(const Call &call) {
    return softmax(call, later_keys(*call.input(0)));
}
Status scaled_aligned_causal_masked_softmax_fwd(const Call &call) {
    return softmax(call, later_keys(*call.input(0)));
}

} // namespace

void add_softmax(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::scaled_softmax_fwd, any_float, opdock::kernel<&scaled_softmax_fwd>);
    plugin.add(ops::scaled_softmax_bwd, any_float, opdock::kernel<&softmax_gradient>);
    plugin.add(ops::scaled_masked_softmax_fwd, any_float, opdock::kernel<&scaled_masked_softmax_fwd>);
    plugin.add(ops::scaled_masked_softmax_bwd, any_float, opdock::kernel<&softmax_gradient>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_fwd, any_float,
               opdock::kernel<&scaled_upper_triang_masked_softmax_fwd>);
    plugin.add(ops::scaled_upper_triang_masked_softmax_bwd, any_float, opdock::kernel<&softmax_gradient>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_fwd, any_float,
               opdock::kernel<&scaled_aligned_causal_masked_softmax_fwd>);
    plugin.add(ops::scaled_aligned_causal_masked_softmax_bwd, any_float, opdock::kernel<&softmax_gradient>);
    plugin.add(ops::log_softmax_fwd, any_float, opdock::kernel<&log_softmax_fwd>);
    plugin.add(ops::log_softmax_bwd, any_float, opdock::kernel<&log_softmax_bwd>);
}

} // namespace reference
