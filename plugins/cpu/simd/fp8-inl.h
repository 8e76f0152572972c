// fp8 in memory: the counterpart of convert-inl.h. Conversions round to nearest even and saturate, with the same steps
// as opdock/cpp/float8.hpp.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_FP8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_FP8_INL_H
#undef CPU_SIMD_FP8_INL_H
#else
#define CPU_SIMD_FP8_INL_H
#endif

#include "simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// `largest` is the format's largest value as the bits of an f32.
template<int mantissa_bits, uint32_t bias, uint32_t largest>
HWY_INLINE VU8 fp8_from_f32(VF v) {
    constexpr int shift = 23 - mantissa_bits;
    constexpr uint32_t smallest = (128 - bias) << 23;
    constexpr uint32_t step = (128 - bias + static_cast<uint32_t>(shift)) << 23;
    const VU32 bits = hn::BitCast(u32, v);
    const VU32 magnitude = hn::And(bits, hn::Set(u32, 0x7fffffff));
    const VU32 sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(u32, 0x80));
    const VU32 within = hn::Min(magnitude, hn::Set(u32, largest));
    const VU32 odd = hn::And(hn::ShiftRight<shift>(within), hn::Set(u32, 1));
    const VU32 rebiased = hn::Sub(within, hn::Set(u32, ((127 - bias) << 23) - (1u << (shift - 1)) + 1));
    const VU32 normal = hn::ShiftRight<shift>(hn::Add(rebiased, odd));
    const VF unit = hn::BitCast(f32, hn::Set(u32, step));
    const VU32 subnormal = hn::Sub(hn::BitCast(u32, hn::Add(hn::BitCast(f32, within), unit)), hn::Set(u32, step));
    VU32 finite = hn::IfThenElse(hn::Lt(within, hn::Set(u32, smallest)), subnormal, normal);
    finite = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7f800000)), hn::Set(u32, 0x7f), finite);
    return hn::DemoteTo(u8, hn::BitCast(i32, hn::Or(finite, sign)));
}

template<>
struct Storage<opdock::e4m3_t> {
    using Bits = uint8_t;
    static constexpr U8 tag{};
    static HWY_INLINE VF load(const uint8_t *p) { return to_f32(hn::LoadU(u8, p)); }
    static HWY_INLINE VF to_f32(VU8 v) {
        const VU32 bits = hn::PromoteTo(u32, v);
        const VU32 sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(u32, 0x80)));
        const VU32 magnitude = hn::And(bits, hn::Set(u32, 0x7f));
        const VU32 normal = hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(u32, 120 << 23));
        const VF subnormal = hn::Mul(hn::ConvertTo(f32, hn::BitCast(i32, magnitude)), hn::Set(f32, 0x1p-9f));
        VU32 v32 = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, 8)), hn::BitCast(u32, subnormal), normal);
        v32 = hn::IfThenElse(hn::Eq(magnitude, hn::Set(u32, 0x7f)), hn::Set(u32, 0x7fc00000), v32);
        return hn::BitCast(f32, hn::Or(v32, sign));
    }
    static HWY_INLINE VU8 from_f32(VF v) { return fp8_from_f32<3, 7, 0x43e00000>(v); }
};

template<>
struct Storage<opdock::e5m2_t> {
    using Bits = uint8_t;
    static constexpr U8 tag{};
    static HWY_INLINE VF load(const uint8_t *p) { return to_f32(hn::LoadU(u8, p)); }
    static HWY_INLINE VF to_f32(VU8 v) { return f32_from_f16(hn::ShiftLeft<8>(hn::PromoteTo(u16, v))); }
    static HWY_INLINE VU8 from_f32(VF v) { return fp8_from_f32<2, 15, 0x47600000>(v); }
};

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
