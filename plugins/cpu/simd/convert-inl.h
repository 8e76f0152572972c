// Vectors of f32 from rows of f32, f16 or bf16, and back.
//
// Every kernel computes in f32 and accesses memory only through load() and store(), so a kernel is written once for all
// dtypes. Each access states its extent: Whole, or Part for the end of a row. A Part never touches memory outside the
// row, and no element is read after its neighbour was written, so output may be input.
//
// Conversions to 16 bits round to nearest even and keep NaN a NaN. They use integer operations because Highway 1.0.3
// truncates to bf16 and gets f16 wrong past its range; targets with F16C use that. Nothing here depends on subnormal
// f32 arithmetic, which a program may have switched off.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_CONVERT_INL_H
#undef CPU_SIMD_CONVERT_INL_H
#else
#define CPU_SIMD_CONVERT_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "opdock/plugin.hpp"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using U8 = hn::Rebind<uint8_t, F32>;
using VF = hn::Vec<F32>;
using VU32 = hn::Vec<U32>;
using VU16 = hn::Vec<U16>;
using VU8 = hn::Vec<U8>;

inline constexpr F32 f32;
inline constexpr U32 u32;
inline constexpr I32 i32;
inline constexpr U16 u16;
inline constexpr U8 u8;

// Extent of an access: a whole vector, or part of one.
struct Whole {};
struct Part {
    size_t count; // 1 to lanes - 1
};

#undef CPU_SIMD_HAS_F16C
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define CPU_SIMD_HAS_F16C 1
#else
#define CPU_SIMD_HAS_F16C 0
#endif

// Loads 16 bits into the upper half of each lane.
HWY_INLINE VF load_bf16(const uint16_t *p) {
#if HWY_TARGET == HWY_AVX2
    // Widening and shifting would take two operations; this takes one.
    const hn::Repartition<uint8_t, F32> bytes;
    HWY_ALIGN static constexpr uint8_t spread[32] = {128, 128, 0,   1,   128, 128, 2,   3,   128, 128, 4,
                                                     5,   128, 128, 6,   7,   128, 128, 8,   9,   128, 128,
                                                     10,  11,  128, 128, 12,  13,  128, 128, 14,  15};
    const auto twice = hn::LoadDup128(bytes, reinterpret_cast<const uint8_t *>(p));
    return hn::BitCast(f32, hn::TableLookupBytesOr0(twice, hn::Load(bytes, spread)));
#else
    return hn::BitCast(f32, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, p))));
#endif
}

HWY_INLINE VF f32_from_bf16(VU16 bits) {
    return hn::BitCast(f32, hn::ShiftLeft<16>(hn::PromoteTo(u32, bits)));
}

HWY_INLINE VU16 low_halves(VU32 v) {
    return hn::DemoteTo(u16, hn::BitCast(i32, v));
} // each lane is below 2^16

HWY_INLINE VU16 bf16_from_f32(VF v) {
    const VU32 bits = hn::BitCast(u32, v);
    const VU32 upper = hn::ShiftRight<16>(bits);
    const VU32 odd = hn::And(upper, hn::Set(u32, 1));
    VU32 rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fff))));
    // Rounding could carry a NaN into infinity or zero. A branch is cheaper than a select in every call.
    const auto nan = hn::IsNaN(v);
    if (HWY_UNLIKELY(!hn::AllFalse(f32, nan)))
        rounded = hn::IfThenElse(hn::RebindMask(u32, nan), hn::Or(upper, hn::Set(u32, 0x40)), rounded);
    return low_halves(rounded);
}

#if CPU_SIMD_HAS_F16C

HWY_INLINE VF f32_from_f16(VU16 bits) {
    return hn::PromoteTo(f32, hn::BitCast(hn::Rebind<hwy::float16_t, F32>(), bits));
}

HWY_INLINE VU16 f16_from_f32(VF v) {
    return hn::BitCast(u16, hn::DemoteTo(hn::Rebind<hwy::float16_t, F32>(), v));
}

#else

HWY_INLINE VF f32_from_f16(VU16 bits) {
    const VU32 half = hn::PromoteTo(u32, bits);
    const VU32 sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(u32, 0x8000)));
    const VU32 magnitude = hn::And(half, hn::Set(u32, 0x7fff));
    const VU32 aligned = hn::ShiftLeft<13>(magnitude);
    const VU32 normal = hn::Add(aligned, hn::Set(u32, (127 - 15) << 23));
    const VF subnormal = hn::Mul(hn::ConvertTo(f32, hn::BitCast(i32, magnitude)), hn::Set(f32, 0x1p-24f));
    const VU32 infinite = hn::Or(aligned, hn::Set(u32, 0x7f800000));
    const VU32 quiet_nan = hn::Or(infinite, hn::Set(u32, 0x00400000));
    VU32 v = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, 0x0400)), hn::BitCast(u32, subnormal), normal);
    v = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7bff)), infinite, v);
    v = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7c00)), quiet_nan, v);
    return hn::BitCast(f32, hn::Or(v, sign));
}

HWY_INLINE VU16 f16_from_f32(VF v) {
    const VU32 bits = hn::BitCast(u32, v);
    const VU32 magnitude = hn::And(bits, hn::Set(u32, 0x7fffffff));
    const VU32 sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 0x8000));
    const VU32 odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u32, 1));
    // Wraps for values that are not normal in f16; those lanes are replaced below.
    const VU32 rebiased = hn::Sub(magnitude, hn::Set(u32, (127 - 15) << 23));
    const VU32 normal = hn::ShiftRight<13>(hn::Add(rebiased, hn::Add(odd, hn::Set(u32, 0xfff))));
    // In [0.5, 1) an f32 has steps of 2^-24, as subnormal f16 do, so the addition rounds.
    const VF half = hn::Set(f32, 0.5f);
    const VU32 subnormal =
        hn::Sub(hn::BitCast(u32, hn::Add(hn::BitCast(f32, magnitude), half)), hn::BitCast(u32, half));
    const VU32 infinite = hn::Set(u32, 0x7c00);
    const VU32 quiet_nan =
        hn::Or(hn::ShiftRight<13>(hn::And(magnitude, hn::Set(u32, 0x007fffff))), hn::Set(u32, 0x7e00));
    VU32 h = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u32, (127 - 14) << 23)), subnormal, normal);
    h = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x477fefff)), infinite, h); // 65520 and up
    h = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u32, 0x7f800000)), quiet_nan, h);
    return low_halves(hn::Or(h, sign));
}

#endif

// The bits of a dtype, as many elements as a VF holds.
template<class T>
struct Storage;
template<>
struct Storage<float> {
    using Bits = float;
    static constexpr F32 tag{};
    static HWY_INLINE VF load(const float *p) { return hn::LoadU(f32, p); }
    static HWY_INLINE VF to_f32(VF v) { return v; }
    static HWY_INLINE VF from_f32(VF v) { return v; }
};
template<>
struct Storage<opdock::half_t> {
    using Bits = uint16_t;
    static constexpr U16 tag{};
    static HWY_INLINE VF load(const uint16_t *p) { return f32_from_f16(hn::LoadU(u16, p)); }
    static HWY_INLINE VF to_f32(VU16 v) { return f32_from_f16(v); }
    static HWY_INLINE VU16 from_f32(VF v) { return f16_from_f32(v); }
};
template<>
struct Storage<opdock::bfloat16_t> {
    using Bits = uint16_t;
    static constexpr U16 tag{};
    static HWY_INLINE VF load(const uint16_t *p) { return load_bf16(p); }
    static HWY_INLINE VF to_f32(VU16 v) { return f32_from_bf16(v); }
    static HWY_INLINE VU16 from_f32(VF v) { return bf16_from_f32(v); }
};

template<class T>
HWY_INLINE const typename Storage<T>::Bits *bits_of(const T *p) {
    static_assert(sizeof(T) == sizeof(typename Storage<T>::Bits));
    return reinterpret_cast<const typename Storage<T>::Bits *>(p);
}
template<class T>
HWY_INLINE typename Storage<T>::Bits *bits_of(T *p) {
    static_assert(sizeof(T) == sizeof(typename Storage<T>::Bits));
    return reinterpret_cast<typename Storage<T>::Bits *>(p);
}

template<class T>
HWY_INLINE VF load(const T *p, Whole) {
    return Storage<T>::load(bits_of(p));
}

// Lanes past the end are zero.
template<class T>
HWY_INLINE VF load(const T *p, Part part) {
    HWY_ALIGN typename Storage<T>::Bits buffer[hn::MaxLanes(f32)] = {};
    std::memcpy(buffer, p, part.count * sizeof(T));
    return Storage<T>::load(buffer);
}

template<class T, class V>
HWY_INLINE void store_bits(V bits, T *p, Whole) {
    hn::StoreU(bits, Storage<T>::tag, bits_of(p));
}

template<class T, class V>
HWY_INLINE void store_bits(V bits, T *p, Part part) {
    HWY_ALIGN typename Storage<T>::Bits buffer[hn::MaxLanes(f32)];
    hn::Store(bits, Storage<T>::tag, buffer);
    std::memcpy(p, buffer, part.count * sizeof(T));
}

template<class T, class Extent>
HWY_INLINE void store(VF v, T *p, Extent extent) {
    store_bits(Storage<T>::from_f32(v), p, extent);
}

// Stores v and returns the stored value.
template<class T, class Extent>
HWY_INLINE VF store_rounded(VF v, T *p, Extent extent) {
    const auto bits = Storage<T>::from_f32(v);
    store_bits(bits, p, extent);
    return Storage<T>::to_f32(bits);
}

// Keeps the lanes that exist; lanes past the end become `fill`.
HWY_INLINE VF keep(VF v, VF, Whole) {
    return v;
}
HWY_INLINE VF keep(VF v, VF fill, Part part) {
    return hn::IfThenElse(hn::FirstN(f32, part.count), v, fill);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
