// Reading and writing rows of tensors that are larger than the caches.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_MEMORY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_MEMORY_INL_H
#undef CPU_SIMD_MEMORY_INL_H
#else
#define CPU_SIMD_MEMORY_INL_H
#endif

#include "hwy/cache_control.h"
#include "rows.hpp"
#include "simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// A row to write. With `bypass`, a large tensor is written past the caches: a plain store first reads the line that it
// overwrites, a third of the traffic of a copy. That needs vectors of 16 bytes or more on aligned rows; other rows are
// stored plainly. Call hwy::FlushStream() after the last row.
//
// Write one row at a time: non-temporal stores that switch lines before one is full are many times slower (16 bytes in
// turn into two rows: a quarter of the speed of plain stores on Zen 3). A loop that writes two rows keeps the second in
// a Stage.
template<class T>
class Sink {
  public:
    Sink(T *row, bool bypass)
        : row_(row),
          bypass_(bypass && vector_bytes >= 16 && reinterpret_cast<uintptr_t>(row) % HWY_MIN(vector_bytes, 64) == 0) {}

    HWY_INLINE void store(VF v, size_t i, Whole whole) const { store_bits(Storage<T>::from_f32(v), i, whole); }
    HWY_INLINE void store(VF v, size_t i, Part part) const { HWY_NAMESPACE::store(v, row_ + i, part); }

    // Copies elements [begin, end) from cached memory.
    HWY_INLINE void copy(const T *from, size_t begin, size_t end) const {
        constexpr size_t lanes = hn::MaxLanes(f32);
        for (; begin + lanes <= end; begin += lanes, from += lanes)
            store_bits(hn::LoadU(Storage<T>::tag, bits_of(from)), begin, Whole{});
        if (begin < end)
            std::memcpy(row_ + begin, from, (end - begin) * sizeof(T));
    }

  private:
    static constexpr size_t vector_bytes = hn::MaxLanes(f32) * sizeof(T);

    template<class V>
    HWY_INLINE void store_bits(V bits, size_t i, Whole whole) const {
        if (bypass_)
            hn::Stream(bits, Storage<T>::tag, bits_of(row_ + i));
        else
            HWY_NAMESPACE::store_bits(bits, row_ + i, whole);
    }

    T *row_;
    bool bypass_;
};

// Part of a row that waits in L1 until it can be written at once.
template<class T>
class Stage {
  public:
    static constexpr size_t size = 512;

    HWY_INLINE void store(VF v, size_t i, Whole whole) { HWY_NAMESPACE::store(v, elements_ + i, whole); }
    HWY_INLINE void store(VF v, size_t i, Part part) { HWY_NAMESPACE::store(v, elements_ + i, part); }
    const T *elements() const { return elements_; }

  private:
    HWY_ALIGN T elements_[size];
};

// Prefetches the row after the current one while the second pass over the current row leaves memory idle. Skips rows
// that are too long to fit in L2 beside it.
template<class T>
class NextRow {
  public:
    NextRow(const Rows &rows, int64_t row, int64_t end, size_t n)
        : row_(rows.row<const T>(row + 1 < end && n * sizeof(T) <= longest ? row + 1 : row)) {}

    // Call for every vector.
    HWY_INLINE void fetch(size_t i) const { hwy::Prefetch(row_ + i); }
    const T *data() const { return row_; }

  private:
    static constexpr size_t longest = 64 << 10;

    const T *row_; // the current row if there is no next one: fetching it again is harmless
};

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
