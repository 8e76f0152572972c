// Philox 4x32-10, as opdock/ops/elementwise.h defines the words that dropout draws.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_PHILOX_INL_H
#undef CPU_SIMD_PHILOX_INL_H
#else
#define CPU_SIMD_PHILOX_INL_H
#endif

#include "simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// The high and low halves of each lane's product with a constant.
HWY_INLINE void multiply_wide(VU32 v, uint32_t by, VU32 &high, VU32 &low) {
#if HWY_TARGET == HWY_SCALAR // one lane is too short for the product
    const uint64_t product = uint64_t(hn::GetLane(v)) * by;
    high = hn::Set(u32, static_cast<uint32_t>(product >> 32));
    low = hn::Set(u32, static_cast<uint32_t>(product));
#else
    const hn::Repartition<uint64_t, U32> u64;
    const VU32 factor = hn::Set(u32, by);
    const auto even = hn::MulEven(v, factor);
    const auto odd = hn::MulEven(hn::BitCast(u32, hn::ShiftRight<32>(hn::BitCast(u64, v))), factor);
    high = hn::OddEven(hn::BitCast(u32, odd), hn::BitCast(u32, hn::ShiftRight<32>(even)));
    low = hn::OddEven(hn::BitCast(u32, hn::ShiftLeft<32>(odd)), hn::BitCast(u32, even));
#endif
}

// Writes the words of counters (first, offset), (first + 1, offset), ... under a key: 4 words per counter, in order.
// Writes whole vectors of counters, so `words` needs room for 4 vectors past `count` counters.
HWY_INLINE void philox(uint64_t first, uint64_t offset, uint64_t key, size_t count, uint32_t *words) {
    const auto low = [](uint64_t number) { return static_cast<uint32_t>(number); };
    const auto high = [](uint64_t number) { return static_cast<uint32_t>(number >> 32); };
    const size_t lanes = hn::Lanes(u32);
    for (size_t done = 0; done < count; done += lanes) {
        const uint64_t counter = first + done;
        const VU32 base = hn::Set(u32, low(counter));
        VU32 a = hn::Add(base, hn::Iota(u32, 0));
        VU32 b = hn::IfThenElse(hn::Lt(a, base), hn::Set(u32, high(counter) + 1), hn::Set(u32, high(counter)));
        VU32 c = hn::Set(u32, low(offset)), d = hn::Set(u32, high(offset));
        uint32_t key_low = low(key), key_high = high(key);
        for (int round = 0; round < 10; ++round) {
            VU32 high_of_a, low_of_a, high_of_c, low_of_c;
            multiply_wide(a, 0xd2511f53, high_of_a, low_of_a);
            multiply_wide(c, 0xcd9e8d57, high_of_c, low_of_c);
            a = hn::Xor(hn::Xor(high_of_c, b), hn::Set(u32, key_low));
            b = low_of_c;
            c = hn::Xor(hn::Xor(high_of_a, d), hn::Set(u32, key_high));
            d = low_of_a;
            key_low += 0x9e3779b9;
            key_high += 0xbb67ae85;
        }
        hn::StoreInterleaved4(a, b, c, d, u32, words + 4 * done);
    }
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
