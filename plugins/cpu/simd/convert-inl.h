// Vectors of f32 from rows of f32, f16 or bf16, and back.
//
// Every kernel computes in f32 and meets memory only through load() and store(), so a kernel is written once for all
// dtypes. Each access says how much of the vector exists: Whole, or Part of one at the end of a row. A Part never
// touches memory outside the row, and no element is read after its neighbour was written, so output may be input.
//
// Conversions to 16 bits round to nearest even and keep NaN a NaN. They are written with integers because Highway
// 1.0.3 truncates to bf16 and gets f16 wrong past its range; where the target has F16C, that is used. Nothing here
// depends on subnormal f32 arithmetic: a program may have switched that off.
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

#include "hwy/cache_control.h"
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
using VF = hn::Vec<F32>;
using VU32 = hn::Vec<U32>;
using VU16 = hn::Vec<U16>;

inline constexpr F32 f32;
inline constexpr U32 u32;
inline constexpr I32 i32;
inline constexpr U16 u16;

// How much of a vector an access covers.
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

HWY_INLINE VF f32_from_bf16(VU16 bits) {
    return hn::BitCast(f32, hn::ShiftLeft<16>(hn::PromoteTo(u32, bits)));
}

HWY_INLINE VU16 low_halves(VU32 v) {
    return hn::DemoteTo(u16, hn::BitCast(i32, v));
} // each lane is below 2^16

HWY_INLINE VU16 bf16_from_f32(VF v) {
    const VU32 bits = hn::BitCast(u32, v);
    const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const VU32 rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fff))));
    const VU32 quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u32, 0x40));
    return low_halves(hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), quiet_nan, rounded));
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
    // Wraps for what is not normal in f16; those lanes are replaced below.
    const VU32 rebiased = hn::Sub(magnitude, hn::Set(u32, (127 - 15) << 23));
    const VU32 normal = hn::ShiftRight<13>(hn::Add(rebiased, hn::Add(odd, hn::Set(u32, 0xfff))));
    // In [0.5, 1) an f32 counts in steps of 2^-24, as subnormal f16 do: the addition rounds.
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

// The vector of a dtype's own bits that holds as many elements as a VF.
template<class T>
struct Storage;
template<>
struct Storage<float> {
    using Bits = float;
    static constexpr F32 tag{};
    static HWY_INLINE VF to_f32(VF v) { return v; }
    static HWY_INLINE VF from_f32(VF v) { return v; }
};
template<>
struct Storage<opdock::half_t> {
    using Bits = uint16_t;
    static constexpr U16 tag{};
    static HWY_INLINE VF to_f32(VU16 v) { return f32_from_f16(v); }
    static HWY_INLINE VU16 from_f32(VF v) { return f16_from_f32(v); }
};
template<>
struct Storage<opdock::bfloat16_t> {
    using Bits = uint16_t;
    static constexpr U16 tag{};
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
    return Storage<T>::to_f32(hn::LoadU(Storage<T>::tag, bits_of(p)));
}

// Lanes past the end are zero.
template<class T>
HWY_INLINE VF load(const T *p, Part part) {
    HWY_ALIGN typename Storage<T>::Bits buffer[hn::MaxLanes(f32)] = {};
    std::memcpy(buffer, p, part.count * sizeof(T));
    return Storage<T>::to_f32(hn::Load(Storage<T>::tag, buffer));
}

template<class T>
HWY_INLINE void store(VF v, T *p, Whole) {
    hn::StoreU(Storage<T>::from_f32(v), Storage<T>::tag, bits_of(p));
}

template<class T>
HWY_INLINE void store(VF v, T *p, Part part) {
    HWY_ALIGN typename Storage<T>::Bits buffer[hn::MaxLanes(f32)];
    hn::Store(Storage<T>::from_f32(v), Storage<T>::tag, buffer);
    std::memcpy(p, buffer, part.count * sizeof(T));
}

// What v becomes when it is stored as T.
template<class T>
HWY_INLINE VF rounded(VF v) {
    return Storage<T>::to_f32(Storage<T>::from_f32(v));
}

// A row to write. A large tensor is written past the caches when asked to (`bypass`): a plain store first reads the
// line it is about to overwrite, a third of the traffic of a copy. That takes vectors of 16 bytes or more on aligned
// rows; others are stored plainly. Call hwy::FlushStream() after the last row.
template<class T>
class Sink {
  public:
    Sink(T *row, bool bypass)
        : row_(row),
          bypass_(bypass && vector_bytes >= 16 && reinterpret_cast<uintptr_t>(row) % HWY_MIN(vector_bytes, 64) == 0) {}

    HWY_INLINE void store(VF v, size_t i, Whole whole) const {
        if (bypass_)
            hn::Stream(Storage<T>::from_f32(v), Storage<T>::tag, bits_of(row_ + i));
        else
            HWY_NAMESPACE::store(v, row_ + i, whole);
    }

    HWY_INLINE void store(VF v, size_t i, Part part) const { HWY_NAMESPACE::store(v, row_ + i, part); }

  private:
    static constexpr size_t vector_bytes = hn::MaxLanes(f32) * sizeof(T);

    T *row_;
    bool bypass_;
};

// The lanes that exist; what lies past the end becomes `fill`.
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
