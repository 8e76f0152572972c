#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "float64.hpp"
#include "ops/activation_functions.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

// Returns NaN if either argument is NaN.
float larger(float a, float b) {
    return std::isnan(a) || a >= b ? a : b;
}

Status quantize(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto t) {
        return opdock::visit_float8(call.output(0)->dtype, [&](auto f) {
            using T = typename decltype(t)::type;
            using F = typename decltype(f)::type;
            const auto input = call.input<const T>(0);
            const double scale = wide(call.input<const float>(1)[0]);
            const auto amax = call.input<float>(2);
            const auto output = call.output<F>(0);
            float largest = amax ? amax[0] : 0;
            for (std::int64_t r = 0; r < input.rows(); ++r) {
                const auto from = input.row(r);
                const auto to = output.row(r);
                for (std::int64_t i = 0; i < to.size(); ++i) {
                    const double x = wide(from[i]);
                    to[i] = F(rounded<float>(x * scale));
                    largest = larger(largest, static_cast<float>(std::abs(x)));
                }
            }
            if (amax)
                amax[0] = largest;
            return Status();
        });
    });
}

Status dequantize(const Call &call) {
    return opdock::visit_float8(call.input(0)->dtype, [&](auto f) {
        return opdock::visit_floating(call.output(0)->dtype, [&](auto t) {
            using F = typename decltype(f)::type;
            using T = typename decltype(t)::type;
            const double scale_inv = wide(call.input<const float>(1)[0]);
            const auto times_scale = [scale_inv](double x) { return x * scale_inv; };
            map(call.output<T>(0), times_scale, call.input<const F>(0));
            return Status();
        });
    });
}

template<class F>
struct EightBits {
    static constexpr double largest = std::is_same_v<F, opdock::e4m3_t> ? 448 : 57344;
    static F from(float value) { return F(value); }
};
template<>
struct EightBits<std::int8_t> {
    static constexpr double largest = 127;
    static std::int8_t from(float value) {
        return static_cast<std::int8_t>(std::isnan(value) ? 0 : std::nearbyint(std::clamp(value, -127.0f, 127.0f)));
    }
};

// The scale of a group of elements, from their largest magnitude.
template<class F>
float scale_for(double largest) {
    return rounded<float>(largest / EightBits<F>::largest);
}

template<class F>
F divided(double x, float scale) {
    return EightBits<F>::from(scale == 0 ? 0 : rounded<float>(x / wide(scale)));
}

double largest_of(double largest, double x) {
    return std::isnan(largest) || largest >= std::abs(x) ? largest : std::abs(x);
}

// Quantizes blocks of the given number of rows and columns; the second output holds their scales, in order.
template<class T, class F>
void quantize_blocks(const Call &call, std::int64_t block_rows, std::int64_t block_columns, std::int64_t across) {
    const auto input = call.input<const T>(0);
    const auto output = call.output<F>(0);
    const auto scales = call.output<float>(1);
    const std::int64_t n = input.size(-1);
    for (std::int64_t first = 0; first < input.rows(); first += block_rows)
        for (std::int64_t block = 0; block < across; ++block) {
            const std::int64_t begin = block * block_columns, end = std::min(n, begin + block_columns);
            const std::int64_t last = std::min(input.rows(), first + block_rows);
            double largest = 0;
            for (std::int64_t r = first; r < last; ++r)
                for (std::int64_t i = begin; i < end; ++i)
                    largest = largest_of(largest, wide(input.row(r)[i]));
            const float scale = scale_for<F>(largest);
            for (std::int64_t r = first; r < last; ++r)
                for (std::int64_t i = begin; i < end; ++i)
                    output.row(r)[i] = divided<F>(wide(input.row(r)[i]), scale);
            scales[first / block_rows * across + block] = scale;
        }
}

// quantize(tag of T, tag of F)
template<class Quantize>
Status for_8_bits(const Call &call, Quantize quantize) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto t) {
        if (opdock_dtype_pack(call.output(0)->dtype) == OPDOCK_I8) {
            quantize(t, opdock::TypeTag<std::int8_t>{});
            return Status();
        }
        return opdock::visit_float8(call.output(0)->dtype, [&](auto f) {
            quantize(t, f);
            return Status();
        });
    });
}

Status quantize_in_blocks(const Call &call, std::int64_t block_rows, std::int64_t block_columns, std::int64_t across) {
    return for_8_bits(call, [&](auto t, auto f) {
        quantize_blocks<typename decltype(t)::type, typename decltype(f)::type>(call, block_rows, block_columns,
                                                                                across);
    });
}

std::int64_t row_size(const Call &call) {
    const DLTensor &input = *call.input(0);
    return input.ndim == 0 ? 1 : input.shape[input.ndim - 1];
}

Status quantize_per_token(const Call &call) {
    return quantize_in_blocks(call, 1, row_size(call), 1);
}

Status quantize_1x128(const Call &call) {
    return quantize_in_blocks(call, 1, 128, (row_size(call) + 127) / 128);
}

Status quantize_128x128(const Call &call) {
    return quantize_in_blocks(call, 128, 128, (row_size(call) + 127) / 128);
}

// make(r, row) writes row r to `row`.
template<class Make>
Status quantize_made_rows(const Call &call, Make make) {
    return opdock::visit_float8(call.output(0)->dtype, [&](auto f) {
        using F = typename decltype(f)::type;
        const auto output = call.output<F>(0);
        const auto scales = call.output<float>(1);
        std::vector<double> row(static_cast<std::size_t>(output.size(-1)));
        for (std::int64_t r = 0; r < output.rows(); ++r) {
            make(r, row);
            const float scale = scale_for<F>(std::accumulate(row.begin(), row.end(), 0.0, largest_of));
            const auto to = output.row(r);
            for (std::int64_t i = 0; i < to.size(); ++i)
                to[i] = divided<F>(row[static_cast<std::size_t>(i)], scale);
            scales[r] = scale;
        }
        return Status();
    });
}

Status rmsnorm_quantize(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto t) {
        return opdock::visit_floating(call.input(1)->dtype, [&](auto u) {
            const auto input = call.input<const typename decltype(t)::type>(0);
            const auto weight = call.input<const typename decltype(u)::type>(1);
            const double centre = call.get_bool(2) ? 1 : 0;
            return quantize_made_rows(call, [&](std::int64_t r, std::vector<double> &row) {
                widen(input.row(r), row);
                const double squares = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
                const double count = static_cast<double>(std::max<std::size_t>(row.size(), 1));
                const double rsigma = 1 / std::sqrt(squares / count + call.get_float(1));
                std::int64_t i = 0;
                for (double &element : row)
                    element *= rsigma * (centre + wide(weight[i++]));
            });
        });
    });
}

Status silu_and_mul_quantize(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto t) {
        const auto gate = call.input<const typename decltype(t)::type>(0);
        const auto up = call.input<const typename decltype(t)::type>(1);
        return quantize_made_rows(call, [&](std::int64_t r, std::vector<double> &row) {
            widen(gate.row(r), row);
            std::int64_t i = 0;
            for (double &element : row)
                element = silu_of(element) * wide(up.row(r)[i++]);
        });
    });
}

} // namespace

void add_quantize(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::quantize, to_fp8, opdock::kernel<&quantize>);
    plugin.add(ops::quantize_per_token, to_8_bits, opdock::kernel<&quantize_per_token>);
    plugin.add(ops::quantize_1x128, to_8_bits, opdock::kernel<&quantize_1x128>);
    plugin.add(ops::quantize_128x128, to_8_bits, opdock::kernel<&quantize_128x128>);
    plugin.add(ops::rmsnorm_quantize, weighted_to_fp8, opdock::kernel<&rmsnorm_quantize>);
    plugin.add(ops::silu_and_mul_quantize, to_fp8, opdock::kernel<&silu_and_mul_quantize>);
    plugin.add(ops::dequantize, from_fp8, opdock::kernel<&dequantize>);
}

} // namespace reference
