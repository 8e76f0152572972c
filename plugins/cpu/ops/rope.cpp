// fused_rope_fwd and fused_rope_bwd, of one tensor and of two (fused_rope_qk_*).
//
// All are one rotation of pairs of dims: out = x cosine + partner cross, where cross holds the sines with the signs
// and, backward, the places of the transpose. The coefficients of a position are computed once for its batch and heads.
#include <cmath>
#include <string>
#include <vector>

#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/math-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_ROPE_ARGUMENTS
#define CPU_ROPE_ARGUMENTS
namespace cpu {

struct Rope {
    DLDataType t;
    Rows input, freqs, output;
    int64_t dims;         // of a row
    int64_t rotated;      // of them
    int64_t per_position; // rows
    bool interleaved;
    bool transposed; // backward
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

void sines_and_cosines(const float *angles, size_t n, float *sines, float *cosines) {
    const hn::ScalableTag<double> f64;
    const hn::Rebind<float, decltype(f64)> half;
    const size_t lanes = hn::Lanes(f64);
    // Vectors of angles that sine_cosine takes; what it does not (huge angles, NaN) goes to the C library.
    constexpr float limit = 0x1p30f;
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        const auto angle = hn::LoadU(half, angles + i);
        if (!hn::AllTrue(half, hn::Le(hn::Abs(angle), hn::Set(half, limit))))
            break;
        auto sine = hn::Undefined(f64), cosine = sine;
        sine_cosine(f64, hn::PromoteTo(f64, angle), sine, cosine);
        hn::StoreU(hn::DemoteTo(half, sine), half, sines + i);
        hn::StoreU(hn::DemoteTo(half, cosine), half, cosines + i);
    }
    for (; i < n; ++i) {
        sines[i] = static_cast<float>(std::sin(static_cast<double>(angles[i])));
        cosines[i] = static_cast<float>(std::cos(static_cast<double>(angles[i])));
    }
}

// cross[i] is what the partner of dim i is multiplied with. `sines` become `cross` in place.
void sines_to_cross(float *sines, size_t n, bool interleaved, bool transposed) {
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

template<class T>
HWY_INLINE void rotate_halves(const T *input, T *output, bool stream, size_t half, const float *cosine,
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

template<class T>
HWY_INLINE void rotate_pairs(const T *input, T *output, bool stream, size_t n, const float *cosine,
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

template<class T>
void rope(const Rope &a, int64_t begin, int64_t end) {
    const auto rotated = static_cast<size_t>(a.rotated);
    const auto rest = static_cast<size_t>(a.dims - a.rotated) * sizeof(T);
    std::vector<float> coefficients(2 * rotated);
    float *cosine = coefficients.data();
    float *cross = cosine + rotated;
    int64_t position = -1;
    for (int64_t r = begin; r < end; ++r) {
        if (r / a.per_position != position) {
            position = r / a.per_position;
            sines_and_cosines(a.freqs.row<const float>(position), rotated, cross, cosine);
            sines_to_cross(cross, rotated, a.interleaved, a.transposed);
        }
        const T *input = a.input.row<const T>(r);
        T *output = a.output.row<T>(r);
        if (a.interleaved)
            rotate_pairs(input, output, a.stream, rotated, cosine, cross);
        else
            rotate_halves(input, output, a.stream, rotated / 2, cosine, cross);
        if (output != input && rest != 0)
            std::memcpy(output + rotated, input + rotated, rest);
    }
    if (a.stream)
        hwy::FlushStream();
}

void rope_rows(const Rope &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { rope<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(rope_rows);

namespace {

constexpr Operand forward_operands[] = {{"input"}, {"freqs"}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"}, {"freqs"}, {"grad_input"}};
constexpr Operand forward_operands_of_both[] = {{"query"}, {"key"}, {"freqs"}, {"query_out"}, {"key_out"}};
constexpr Operand backward_operands_of_both[] = {
    {"grad_query_out"}, {"grad_key_out"}, {"freqs"}, {"grad_query"}, {"grad_key"}};

std::string odd(int64_t rotated) {
    return "freqs: last dimension is " + std::to_string(rotated) +
           "; dimensions are rotated in pairs, so it must be even";
}

// The angles are the last input.
template<const auto &operands>
opdock::Status supports(const opdock::Problem &problem) {
    const int64_t rotated = row_size(*problem.input(problem.c().n_inputs - 1));
    return rotated % 2 == 0 ? check_rows(problem, operands) : opdock::invalid_argument(odd(rotated));
}

// Input i into output i.
void rotate(const opdock::Call &call, uint32_t i, bool transposed) {
    const Knobs knobs = Knobs::of(call);
    const uint32_t freqs = call.c().n_inputs - 1;
    const DLTensor &shape = *call.output(i);
    const int64_t rotated = row_size(*call.input(freqs));
    const Rope a = {
        .t = shape.dtype,
        .input = Rows::of_input(call, i),
        .freqs = Rows::of_input(call, freqs),
        .output = Rows::of_output(call, i),
        .dims = row_size(shape),
        .rotated = rotated,
        .per_position = shape.shape[1] * shape.shape[2],
        .interleaved = call.get_bool(0),
        .transposed = transposed,
        .stream = knobs.stream,
    };
    in_chunks(row_count(shape), 2 * a.dims * element_bytes(shape), knobs, [&](int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(rope_rows)(a, begin, end);
    });
}

template<bool transposed>
opdock::Status run(const opdock::Call &call) {
    for (uint32_t i = 0; i + 1 < call.c().n_inputs; ++i) {
        rotate(call, i, transposed);
    }
    return {};
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::fused_rope_fwd, any_float,
               {opdock::kernel<&run<false>>, opdock::supports<&supports<forward_operands>>});
    plugin.add(ops::fused_rope_bwd, any_float,
               {opdock::kernel<&run<true>>, opdock::supports<&supports<backward_operands>>});
    plugin.add(ops::fused_rope_qk_fwd, any_float,
               {opdock::kernel<&run<false>>, opdock::supports<&supports<forward_operands_of_both>>});
    plugin.add(ops::fused_rope_qk_bwd, any_float,
               {opdock::kernel<&run<true>>, opdock::supports<&supports<backward_operands_of_both>>});
}

} // namespace cpu
#endif
