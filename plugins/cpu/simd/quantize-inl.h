// Rows with a scale, in 8 bits: shared by quantize_per_token and the ops fused with it.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_QUANTIZE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_QUANTIZE_INL_H
#undef CPU_SIMD_QUANTIZE_INL_H
#else
#define CPU_SIMD_QUANTIZE_INL_H
#endif

#include <cstring>

#include "simd/fp8-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Rounds to nearest, ties to even; NaN becomes 0.
template<>
struct Storage<int8_t> {
    using Bits = int8_t;
    static constexpr hn::Rebind<int8_t, F32> tag{};
    static HWY_INLINE auto from_f32(VF v) {
        const VF within = hn::Min(hn::Max(v, hn::Set(f32, -127.0f)), hn::Set(f32, 127.0f));
        return hn::DemoteTo(tag, hn::NearestInt(hn::IfThenElse(hn::IsNaN(v), hn::Zero(f32), within)));
    }
};

// Returns the maximum of `magnitude` and all |elements|, as the bits of an f32; NaN compares as the largest.
template<class T>
HWY_INLINE VU32 largest_of(const T *from, size_t n, VU32 magnitude) {
    along(n, [&](size_t i, auto extent)
                 HWY_ATTR { magnitude = hn::Max(magnitude, hn::BitCast(u32, hn::Abs(load(from + i, extent)))); });
    return magnitude;
}

// `largest` is the format's largest value.
HWY_INLINE float scale_for(VU32 magnitude, float largest) {
    const uint32_t bits = hn::GetLane(hn::MaxOfLanes(u32, magnitude));
    float scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return scale / largest;
}

template<class T, class F>
HWY_INLINE void divide(const T *from, size_t n, float scale, const Sink<F> &output) {
    const VF divisor = hn::Set(f32, scale);
    along(n, [=](size_t i, auto extent) HWY_ATTR {
        const VF x = load(from + i, extent);
        output.store(scale == 0 ? hn::Zero(f32) : hn::Div(x, divisor), i, extent);
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
