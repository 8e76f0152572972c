// rmsnorm_quantize and silu_and_mul_quantize: a row is computed in f32 and stays in the cache until it is divided.
#include <cmath>
#include <vector>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantize_fused.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/gate-inl.h"
#include "simd/quantize-inl.h"

#ifndef CPU_QUANTIZE_FUSED_ARGUMENTS
#define CPU_QUANTIZE_FUSED_ARGUMENTS
namespace cpu {

struct QuantizeFused {
    DLDataType t, u, f;
    Rows input, other, output, scale; // other: the weight, or the gated factor
    int64_t n;
    double eps;
    float centre; // 1 with zero_centered_gamma, else 0: added to the weight
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// make(r, row) fills a row.
template<class F, class Make>
HWY_INLINE void quantize_made(const QuantizeFused &a, float largest, int64_t begin, int64_t end, Make make) {
    const auto n = static_cast<size_t>(a.n);
    std::vector<float> row(n);
    for (int64_t r = begin; r < end; ++r) {
        make(r, row.data());
        const float scale = scale_for(largest_of(row.data(), n, hn::Zero(u32)), largest);
        *a.scale.row<float>(r) = scale;
        divide(row.data(), n, scale, Sink<F>(a.output.row<F>(r), a.stream));
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class Make>
HWY_INLINE void quantize_made_rows(const QuantizeFused &a, int64_t begin, int64_t end, Make make) {
    if (opdock_dtype_pack(a.f) == OPDOCK_E4M3)
        quantize_made<opdock::e4m3_t>(a, 448, begin, end, make);
    else
        quantize_made<opdock::e5m2_t>(a, 57344, begin, end, make);
}

void rmsnorm_quantize_rows(const QuantizeFused &a, int64_t begin, int64_t end) {
    visit_weighted(a.t, a.u, [&](auto t, auto u) {
        using T = typename decltype(t)::type;
        const auto *weight = a.other.row<const typename decltype(u)::type>(0);
        quantize_made_rows(a, begin, end, [&](int64_t r, float *row) HWY_ATTR {
            const auto n = static_cast<size_t>(a.n);
            const T *input = a.input.row<const T>(r);
            const VF centre = hn::Set(f32, a.centre);
            const double squares = sum(n, [=](size_t i, auto extent, VF total) HWY_ATTR {
                const VF x = load(input + i, extent);
                return hn::MulAdd(x, x, total);
            });
            const double mean = squares / HWY_MAX(static_cast<double>(a.n), 1.0);
            const VF rsigma = hn::Set(f32, static_cast<float>(1 / std::sqrt(mean + a.eps)));
            along(n, [=](size_t i, auto extent) HWY_ATTR {
                const VF gain = hn::Add(load(weight + i, extent), centre);
                store(hn::Mul(hn::Mul(load(input + i, extent), rsigma), gain), row + i, extent);
            });
        });
    });
}

void silu_quantize_rows(const QuantizeFused &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) {
        using T = typename decltype(t)::type;
        quantize_made_rows(a, begin, end, [&](int64_t r, float *row) HWY_ATTR {
            const T *gate = a.input.row<const T>(r), *up = a.other.row<const T>(r);
            along(static_cast<size_t>(a.n), [=](size_t i, auto extent) HWY_ATTR {
                store(Gated<Silu>{}.output(load(gate + i, extent), load(up + i, extent)), row + i, extent);
            });
        });
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(rmsnorm_quantize_rows);
HWY_EXPORT(silu_quantize_rows);

namespace {

constexpr Operand rmsnorm_operands[] = {{"input"}, {"weight"}, {"output"}, {"scale", false}};
constexpr Operand silu_operands[] = {{"gate"}, {"up"}, {"output"}, {"scale", false}};

opdock::Status check_rmsnorm(const opdock::Problem &problem) {
    return check_rows(problem, rmsnorm_operands);
}
opdock::Status check_silu(const opdock::Problem &problem) {
    return check_rows(problem, silu_operands);
}

QuantizeFused arguments_of(const opdock::Call &call) {
    QuantizeFused a = {};
    a.t = call.input(0)->dtype;
    a.u = call.input(1)->dtype;
    a.f = call.output(0)->dtype;
    a.input = Rows::of_input(call, 0);
    a.other = Rows::of_input(call, 1);
    a.output = Rows::of_output(call, 0);
    a.scale = Rows::of_output(call, 1, 0);
    a.n = row_size(*call.input(0));
    a.stream = Knobs::of(call).stream;
    return a;
}

opdock::Status rmsnorm(const opdock::Call &call) {
    QuantizeFused a = arguments_of(call);
    a.eps = call.get_float(1);
    a.centre = call.get_bool(2) ? 1.0f : 0.0f;
    in_chunks(row_count(*call.input(0)), a.n * (a.t.bits / 8 + 1), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(rmsnorm_quantize_rows), a);
    return {};
}

opdock::Status silu(const opdock::Call &call) {
    const QuantizeFused a = arguments_of(call);
    in_chunks(row_count(*call.input(0)), a.n * (a.t.bits / 4 + 1), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(silu_quantize_rows), a);
    return {};
}

} // namespace

void add_quantize_fused(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::rmsnorm_quantize, weighted_to_fp8, {opdock::kernel<&rmsnorm>, opdock::supports<&check_rmsnorm>});
    plugin.add(ops::silu_and_mul_quantize, to_fp8, {opdock::kernel<&silu>, opdock::supports<&check_silu>});
}

} // namespace cpu
#endif
