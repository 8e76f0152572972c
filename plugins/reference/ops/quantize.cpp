#include <algorithm>
#include <cmath>
#include <type_traits>

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

template<class T, class F>
void quantize_rows(const Call &call) {
    const auto input = call.input<const T>(0);
    const auto output = call.output<F>(0);
    const auto scales = call.output<float>(1);
    for (std::int64_t r = 0; r < input.rows(); ++r) {
        const auto from = input.row(r);
        const auto to = output.row(r);
        float amax = 0;
        for (std::int64_t i = 0; i < to.size(); ++i)
            amax = larger(amax, static_cast<float>(std::abs(wide(from[i]))));
        const auto scale = rounded<float>(wide(amax) / EightBits<F>::largest);
        for (std::int64_t i = 0; i < to.size(); ++i)
            to[i] = EightBits<F>::from(scale == 0 ? 0 : rounded<float>(wide(from[i]) / wide(scale)));
        scales[r] = scale;
    }
}

Status quantize_per_token(const Call &call) {
    return opdock::visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        if (opdock_dtype_pack(call.output(0)->dtype) == OPDOCK_I8) {
            quantize_rows<T, std::int8_t>(call);
            return Status();
        }
        return opdock::visit_float8(call.output(0)->dtype, [&](auto f) {
            quantize_rows<T, typename decltype(f)::type>(call);
            return Status();
        });
    });
}

} // namespace

void add_quantize(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::quantize, to_fp8, opdock::kernel<&quantize>);
    plugin.add(ops::quantize_per_token, to_8_bits, opdock::kernel<&quantize_per_token>);
    plugin.add(ops::dequantize, from_fp8, opdock::kernel<&dequantize>);
}

} // namespace reference
