#include <cmath>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

// NaN where either is.
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

} // namespace

void add_quantize(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::quantize, to_fp8, opdock::kernel<&quantize>);
    plugin.add(ops::dequantize, from_fp8, opdock::kernel<&dequantize>);
}

} // namespace reference
