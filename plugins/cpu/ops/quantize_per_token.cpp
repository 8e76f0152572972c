// quantize_per_token: a row is read for its largest magnitude, and again, from the cache, to be divided.
#include <cmath>
#include <cstring>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantize_per_token.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/fp8-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_QUANTIZE_PER_TOKEN_ARGUMENTS
#define CPU_QUANTIZE_PER_TOKEN_ARGUMENTS
namespace cpu {

struct QuantizePerToken {
    DLDataType t, f;
    Rows input, output, scale;
    int64_t n;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// To the nearest, ties to even; NaN becomes 0.
template<>
struct Storage<int8_t> {
    using Bits = int8_t;
    static constexpr hn::Rebind<int8_t, F32> tag{};
    static HWY_INLINE auto from_f32(VF v) {
        const VF within = hn::Min(hn::Max(v, hn::Set(f32, -127.0f)), hn::Set(f32, 127.0f));
        return hn::DemoteTo(tag, hn::NearestInt(hn::IfThenElse(hn::IsNaN(v), hn::Zero(f32), within)));
    }
};

template<class T, class F>
void quantize_rows_of(const QuantizePerToken &a, float largest, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        VU32 magnitude = hn::Zero(u32); // as the bits of an f32, among which NaN is the largest
        along(n, [&](size_t i, auto extent)
                     HWY_ATTR { magnitude = hn::Max(magnitude, hn::BitCast(u32, hn::Abs(load(input + i, extent)))); });
        const uint32_t bits = hn::GetLane(hn::MaxOfLanes(u32, magnitude));
        float scale;
        std::memcpy(&scale, &bits, sizeof scale);
        scale /= largest;
        *a.scale.row<float>(r) = scale;
        const VF divisor = hn::Set(f32, scale);
        const Sink<F> output(a.output.row<F>(r), a.stream);
        along(n, [=](size_t i, auto extent) HWY_ATTR {
            const VF x = load(input + i, extent);
            output.store(scale == 0 ? hn::Zero(f32) : hn::Div(x, divisor), i, extent);
        });
    }
}

void quantize_per_token_rows(const QuantizePerToken &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) {
        using T = typename decltype(t)::type;
        if (opdock_dtype_pack(a.f) == OPDOCK_I8)
            quantize_rows_of<T, int8_t>(a, 127, begin, end);
        else if (opdock_dtype_pack(a.f) == OPDOCK_E4M3)
            quantize_rows_of<T, opdock::e4m3_t>(a, 448, begin, end);
        else
            quantize_rows_of<T, opdock::e5m2_t>(a, 57344, begin, end);
    });
    if (a.stream)
        hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(quantize_per_token_rows);

namespace {

constexpr Operand operands[] = {{"input"}, {"output"}, {"scale", false}};

opdock::Status check(const opdock::Problem &problem) {
    return check_rows(problem, operands);
}

opdock::Status run(const opdock::Call &call) {
    const DLTensor &input = *call.input(0), &output = *call.output(0);
    const QuantizePerToken a = {
        .t = input.dtype,
        .f = output.dtype,
        .input = Rows::of_input(call, 0),
        .output = Rows::of_output(call, 0),
        .scale = Rows::of_output(call, 1, 0),
        .n = row_size(input),
        .stream = Knobs::of(call).stream,
    };
    const int64_t bytes = a.n * (element_bytes(input) + element_bytes(output));
    in_chunks(row_count(input), bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(quantize_per_token_rows)
        (a, begin, end);
    });
    return {};
}

} // namespace

void add_quantize_per_token(Plugin &plugin) {
    plugin.add(opdock::ops::quantize_per_token, to_8_bits, {opdock::kernel<&run>, opdock::supports<&check>});
}

} // namespace cpu
#endif
