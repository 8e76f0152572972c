// Flags of one byte per element: masks of attention and of dropout.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_FLAGS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_FLAGS_INL_H
#undef CPU_SIMD_FLAGS_INL_H
#else
#define CPU_SIMD_FLAGS_INL_H
#endif

#include "simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

using Lanes = hn::Mask<F32>;

HWY_INLINE Lanes lanes_of_bytes(VU8 bytes) {
    return hn::RebindMask(f32, hn::Ne(hn::PromoteTo(u32, bytes), hn::Zero(u32)));
}

// The lanes whose byte is nonzero.
HWY_INLINE Lanes load_flags(const uint8_t *p, Whole) {
    return lanes_of_bytes(hn::LoadU(u8, p));
}
HWY_INLINE Lanes load_flags(const uint8_t *p, Part part) {
    HWY_ALIGN uint8_t buffer[hn::MaxLanes(f32)] = {};
    std::memcpy(buffer, p, part.count);
    return lanes_of_bytes(hn::LoadU(u8, buffer));
}

// 1 for each lane that is set, else 0.
HWY_INLINE VU8 bytes_of_lanes(Lanes lanes) {
    const VU32 ones = hn::IfThenElseZero(hn::RebindMask(u32, lanes), hn::Set(u32, 1));
    return hn::DemoteTo(u8, hn::BitCast(i32, ones));
}
HWY_INLINE void store_flags(Lanes lanes, uint8_t *p, Whole) {
    hn::StoreU(bytes_of_lanes(lanes), u8, p);
}
HWY_INLINE void store_flags(Lanes lanes, uint8_t *p, Part part) {
    HWY_ALIGN uint8_t buffer[hn::MaxLanes(f32)];
    hn::StoreU(bytes_of_lanes(lanes), u8, buffer);
    std::memcpy(p, buffer, part.count);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
