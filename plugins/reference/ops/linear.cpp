#include <algorithm>
#include <numeric>

#include "float64.hpp"
#include "heuristics.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using Doubles = std::vector<double>;
using opdock::Row;
using opdock::TensorView;

struct Sizes {
    std::int64_t rows, columns, depth;
};

// Calls store(i, j, dot product of x[i] and w[j]) for vectors from take_x(i, to) and take_w(j, to). Widening costs more
// than multiplying, so a panel of the second vectors is widened once and multiplied with every first one.
template<class TakeX, class TakeW, class Store>
void multiply(const Sizes &sizes, std::int64_t panel_rows, TakeX take_x, TakeW take_w, Store store) {
    std::vector<Doubles> panel;
    Doubles x;
    for (std::int64_t begin = 0; begin < sizes.columns; begin += panel_rows) {
        const std::int64_t end = std::min(begin + panel_rows, sizes.columns);
        panel.resize(static_cast<std::size_t>(end - begin));
        for (std::int64_t j = begin; j < end; ++j)
            take_w(j, panel[static_cast<std::size_t>(j - begin)]);
        for (std::int64_t i = 0; i < sizes.rows; ++i) {
            take_x(i, x);
            for (std::int64_t j = begin; j < end; ++j) {
                const Doubles &w = panel[static_cast<std::size_t>(j - begin)];
                store(i, j, std::inner_product(x.begin(), x.end(), w.begin(), 0.0));
            }
        }
    }
}

// Column j of the rows of a tensor of any rank.
template<class T>
void widen_column(TensorView<const T> tensor, std::int64_t j, Doubles &to) {
    to.resize(static_cast<std::size_t>(tensor.rows()));
    std::int64_t r = 0;
    for (double &element : to)
        element = wide(tensor.row(r++)[j]);
}

Status matmul(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto a = call.input<const T>(0);
        const auto b = call.input<const T>(1);
        const auto output = call.output<T>(0);
        const Sizes sizes = {a.size(-2), b.size(-1), a.size(-1)};
        const std::int64_t products = sizes.rows == 0 ? 0 : output.rows() / sizes.rows;
        for (std::int64_t product = 0; product < products; ++product) {
            const auto take_a = [&](std::int64_t i, Doubles &to) { widen(a.row(product * sizes.rows + i), to); };
            const auto take_b = [&](std::int64_t j, Doubles &to) {
                to.resize(static_cast<std::size_t>(sizes.depth));
                std::int64_t p = product * sizes.depth;
                for (double &element : to)
                    element = wide(b.row(p++)[j]);
            };
            multiply(sizes, panel_rows_for_depth(sizes.depth), take_a, take_b,
                     [&](std::int64_t i, std::int64_t j, double sum) {
                         output.row(product * sizes.rows + i)[j] = rounded<T>(sum);
                     });
        }
        return Status();
    });
}

Status linear_fwd(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto weight = call.input<const T>(1);
        const auto bias = call.input<const T>(2);
        const auto output = call.output<T>(0);
        multiply(
            {input.rows(), weight.size(0), weight.size(1)}, call.knob(0),
            [&](std::int64_t r, Doubles &to) { widen(input.row(r), to); },
            [&](std::int64_t n, Doubles &to) { widen(weight.row(n), to); },
            [&](std::int64_t r, std::int64_t n, double sum) {
                output.row(r)[n] = rounded<T>(bias ? sum + wide(bias[n]) : sum);
            });
        return Status();
    });
}

Status linear_dgrad(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto weight = call.input<const T>(1);
        const auto grad_input = call.output<T>(0);
        multiply(
            {grad.rows(), weight.size(1), weight.size(0)}, panel_rows_for_depth(weight.size(0)),
            [&](std::int64_t r, Doubles &to) { widen(grad.row(r), to); },
            [&](std::int64_t k, Doubles &to) { widen_column(weight, k, to); },
            [&](std::int64_t r, std::int64_t k, double sum) { grad_input.row(r)[k] = rounded<T>(sum); });
        return Status();
    });
}

Status linear_wgrad(const Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0);
        const auto input = call.input<const T>(1);
        const auto grad_weight = call.output<T>(0);
        const auto grad_bias = call.output<T>(1);
        multiply(
            {grad.size(-1), input.size(-1), grad.rows()}, panel_rows_for_depth(grad.rows()),
            [&](std::int64_t n, Doubles &to) { widen_column(grad, n, to); },
            [&](std::int64_t k, Doubles &to) { widen_column(input, k, to); },
            [&](std::int64_t n, std::int64_t k, double sum) { grad_weight.row(n)[k] = rounded<T>(sum); });
        if (grad_bias) {
            Doubles column;
            for (std::int64_t n = 0; n < grad.size(-1); ++n) {
                widen_column(grad, n, column);
                grad_bias[n] = rounded<T>(std::accumulate(column.begin(), column.end(), 0.0));
            }
        }
        return Status();
    });
}

// input_scale_of(row, column) and weight_scale_of(row, column) return the scale of an element.
template<class InputScaleOf, class WeightScaleOf>
Status multiply_float8(const Call &call, InputScaleOf input_scale_of, WeightScaleOf weight_scale_of) {
    return opdock::visit_float8(call.input(0)->dtype, [&](auto f) {
        return opdock::visit_float8(call.input(1)->dtype, [&](auto g) {
            return visit_floating(call.output(0)->dtype, [&](auto t) {
                using T = typename decltype(t)::type;
                const auto input = call.input<const typename decltype(f)::type>(0);
                const auto weight = call.input<const typename decltype(g)::type>(1);
                const auto bias = call.input<const T>(4);
                const auto output = call.output<T>(0);
                const auto take = [](const auto &row, Doubles &to, const auto &scale_of) {
                    widen(row, to);
                    std::int64_t p = 0;
                    for (double &element : to)
                        element *= scale_of(p++);
                };
                multiply(
                    {input.rows(), weight.size(0), weight.size(1)}, panel_rows_for_depth(weight.size(1)),
                    [&](std::int64_t r, Doubles &to) {
                        take(input.row(r), to, [&](std::int64_t p) { return input_scale_of(r, p); });
                    },
                    [&](std::int64_t n, Doubles &to) {
                        take(weight.row(n), to, [&](std::int64_t p) { return weight_scale_of(n, p); });
                    },
                    [&](std::int64_t r, std::int64_t n, double sum) {
                        output.row(r)[n] = rounded<T>(bias ? sum + wide(bias[n]) : sum);
                    });
                return Status();
            });
        });
    });
}

Status linear_fp8(const Call &call) {
    const double input_scale = wide(call.input<const float>(2)[0]), weight_scale = wide(call.input<const float>(3)[0]);
    return multiply_float8(
        call, [=](std::int64_t, std::int64_t) { return input_scale; },
        [=](std::int64_t, std::int64_t) { return weight_scale; });
}

Status linear_fp8_block(const Call &call) {
    const auto input_scale = call.input<const float>(2), weight_scale = call.input<const float>(3);
    return multiply_float8(
        call, [&](std::int64_t r, std::int64_t p) { return wide(input_scale.row(r)[p / 128]); },
        [&](std::int64_t n, std::int64_t p) { return wide(weight_scale(n / 128, p / 128)); });
}

// Checks the starts of groups of rows: they begin with 0, do not decrease and end within the rows.
Status check_starts(TensorView<const std::int32_t> starts, std::int64_t rows) {
    for (std::int64_t i = 0; i < starts.numel(); ++i) {
        const std::int64_t least = i == 0 ? 0 : starts[i - 1], most = i == 0 ? 0 : rows;
        if (starts[i] < least || starts[i] > most)
            return opdock::invalid_argument("starts: element " + std::to_string(i) + " is " +
                                            std::to_string(starts[i]) + "; expected " + std::to_string(least) + " to " +
                                            std::to_string(most));
    }
    return {};
}

template<class T>
void clear_behind(std::int64_t end, TensorView<T> output) {
    for (std::int64_t r = end; r < output.rows(); ++r)
        for (std::int64_t i = 0; i < output.size(1); ++i)
            output(r, i) = T();
}

// Multiplies the rows of x, group by group, with the group's weight along its rows, or down them.
template<class T>
void multiply_groups(TensorView<const T> x, TensorView<const T> weight, TensorView<const std::int32_t> starts,
                     bool down, TensorView<T> output) {
    for (std::int64_t g = 0; g < weight.size(0); ++g) {
        const auto take_w = [&](std::int64_t column, Doubles &to) {
            to.resize(static_cast<std::size_t>(x.size(1)));
            std::int64_t p = 0;
            for (double &element : to) {
                element = wide(down ? weight(g, p, column) : weight(g, column, p));
                ++p;
            }
        };
        multiply(
            {starts[g + 1] - starts[g], output.size(1), x.size(1)}, panel_rows_for_depth(x.size(1)),
            [&](std::int64_t r, Doubles &to) { widen(x.row(starts[g] + r), to); }, take_w,
            [&](std::int64_t r, std::int64_t c, double sum) { output(starts[g] + r, c) = rounded<T>(sum); });
    }
    clear_behind(starts[weight.size(0)], output);
}

template<bool down>
Status grouped_linear(const Call &call) {
    const auto starts = call.input<const std::int32_t>(2);
    Status valid = check_starts(starts, call.input(0)->shape[0]);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        multiply_groups<T>(call.input<const T>(0), call.input<const T>(1), starts, down, call.output<T>(0));
        return Status();
    });
}

Status grouped_linear_wgrad(const Call &call) {
    const auto starts = call.input<const std::int32_t>(2);
    Status valid = check_starts(starts, call.input(0)->shape[0]);
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto grad = call.input<const T>(0), input = call.input<const T>(1);
        const auto grad_weight = call.output<T>(0);
        for (std::int64_t g = 0; g < grad_weight.size(0); ++g) {
            const std::int64_t rows = starts[g + 1] - starts[g];
            const auto column_of = [&](TensorView<const T> tensor, std::int64_t column, Doubles &to) {
                to.resize(static_cast<std::size_t>(rows));
                std::int64_t r = starts[g];
                for (double &element : to)
                    element = wide(tensor(r++, column));
            };
            multiply(
                {grad.size(1), input.size(1), rows}, panel_rows_for_depth(rows),
                [&](std::int64_t n, Doubles &to) { column_of(grad, n, to); },
                [&](std::int64_t k, Doubles &to) { column_of(input, k, to); },
                [&](std::int64_t n, std::int64_t k, double sum) { grad_weight(g, n, k) = rounded<T>(sum); });
        }
        return Status();
    });
}

} // namespace

void add_linear(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::matmul, any_float, opdock::kernel<&matmul>);
    plugin.add(plugin.with_f64(ops::linear_fwd),
               Plugin::implementation(any_float, opdock::kernel<&linear_fwd>)
                   .knob("panel_rows", 1, 4096, 64, "Rows of the weight that are widened to double at a time.")
                   .heuristic(opdock::heuristic<&panel_rows_for_cache>)
                   .tune_version(1));
    plugin.add(ops::linear_dgrad, any_float, opdock::kernel<&linear_dgrad>);
    plugin.add(ops::linear_wgrad, any_float, opdock::kernel<&linear_wgrad>);
    plugin.add(ops::linear_fp8, fp8_factors, opdock::kernel<&linear_fp8>);
    plugin.add(ops::linear_fp8_block, fp8_factors, opdock::kernel<&linear_fp8_block>);
    plugin.add(ops::grouped_linear_fwd, any_float, opdock::kernel<&grouped_linear<false>>);
    plugin.add(ops::grouped_linear_dgrad, any_float, opdock::kernel<&grouped_linear<true>>);
    plugin.add(ops::grouped_linear_wgrad, any_float, opdock::kernel<&grouped_linear_wgrad>);
}

} // namespace reference
