// Rotation of the pairs of dims of a row: out = x cosine + partner cross. cross holds the sines with their signs and,
// in backward, at the places of the transpose.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_ROPE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_ROPE_INL_H
#undef CPU_SIMD_ROPE_INL_H
#else
#define CPU_SIMD_ROPE_INL_H
#endif

#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// cross[i] multiplies the partner of dim i. Turns `sines` into `cross` in place.
inline void sines_to_cross(float *sines, size_t n, bool interleaved, bool transposed) {
    const size_t partner = interleaved ? 1 : n / 2;
    const size_t step = interleaved ? 2 : 1;
    for (size_t pair = 0; pair < n / 2; ++pair) {
        float &first = sines[pair * step];
        float &second = sines[pair * step + partner];
        if (transposed) {
            const float from_second = second;
            second = -first;
            first = from_second;
        } else {
            first = -first;
        }
    }
}

template<class In, class T>
HWY_INLINE void rotate_halves(const In *input, T *output, bool stream, size_t half, const float *cosine,
                              const float *cross) {
    const Sink<T> low(output, stream), high(output + half, stream);
    for (size_t begin = 0; begin < half; begin += Stage<T>::size) {
        const size_t end = HWY_MIN(begin + Stage<T>::size, half);
        Stage<T> stage;
        along(begin, end, [=, &stage](size_t i, auto extent) HWY_ATTR {
            const VF first = load(input + i, extent);
            const VF second = load(input + half + i, extent);
            const VF a = hn::Mul(second, load(cross + i, extent));
            const VF b = hn::Mul(first, load(cross + half + i, extent));
            low.store(hn::MulAdd(first, load(cosine + i, extent), a), i, extent);
            stage.store(hn::MulAdd(second, load(cosine + half + i, extent), b), i - begin, extent);
        });
        high.copy(stage.elements(), begin, end);
    }
}

template<class In, class T>
HWY_INLINE void rotate_pairs(const In *input, T *output, bool stream, size_t n, const float *cosine,
                             const float *cross) {
#if HWY_TARGET == HWY_SCALAR // its vectors are too short for a pair
    (void)stream;
    for (size_t i = 0; i < n; i += 2) {
        const float first(input[i]), second(input[i + 1]);
        output[i] = T(first * cosine[i] + second * cross[i]);
        output[i + 1] = T(second * cosine[i + 1] + first * cross[i + 1]);
    }
#else // a vector holds whole pairs: its lanes and the number of rotated dims are even
    const Sink<T> rotated(output, stream);
    along(n, [=](size_t i, auto extent) HWY_ATTR {
        const VF x = load(input + i, extent);
        const VF a = hn::Mul(hn::Reverse2(f32, x), load(cross + i, extent));
        rotated.store(hn::MulAdd(x, load(cosine + i, extent), a), i, extent);
    });
#endif
}

// Rotates the first n dims of a row by n coefficients of each kind. The output may be the input.
template<class In, class T>
HWY_INLINE void rotate_row(const In *input, T *output, bool stream, size_t n, bool interleaved, const float *cosine,
                           const float *cross) {
    if (interleaved)
        rotate_pairs(input, output, stream, n, cosine, cross);
    else
        rotate_halves(input, output, stream, n / 2, cosine, cross);
}

// Reads the coefficients of `pairs` pairs from a row of each table.
inline void coefficients_from_tables(const float *cos, const float *sin, size_t pairs, bool interleaved,
                                     bool transposed, float *cosine, float *cross) {
    const size_t step = interleaved ? 2 : 1, partner = interleaved ? 1 : pairs;
    for (size_t pair = 0; pair < pairs; ++pair) {
        cosine[pair * step] = cosine[pair * step + partner] = cos[pair];
        cross[pair * step] = cross[pair * step + partner] = sin[pair];
    }
    sines_to_cross(cross, 2 * pairs, interleaved, transposed);
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
