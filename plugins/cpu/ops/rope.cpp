// fused_rope_fwd and fused_rope_bwd, rope_positions and rope_positions_bwd, on one tensor or on two (*_qk_*).
//
// All ops are one rotation of pairs of dims (simd/rope-inl.h). The coefficients of a position are computed once for all
// batches and heads, those of a token once for all its heads.
#include <cmath>
#include <string>
#include <vector>

#include "ops/ops.hpp"
#include "positions.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/math-inl.h"
#include "simd/rope-inl.h"

#ifndef CPU_ROPE_ARGUMENTS
#define CPU_ROPE_ARGUMENTS
namespace cpu {

struct Rope {
    DLDataType t;
    Rows input, output;
    Rows freqs;            // or the tables:
    PositionTables tables; // unused by fused_rope_*
    int64_t dims;          // per row
    int64_t rotated;       // number of rotated dims
    int64_t per_position;  // rows that share a position; for a token, its heads
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
    // sine_cosine computes vectors of angles up to this limit; other angles (huge, NaN) go to the C library.
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
            if (a.tables) {
                coefficients_from_tables(a.tables.cos(position), a.tables.sin(position), rotated / 2, a.interleaved,
                                         a.transposed, cosine, cross);
            } else {
                sines_and_cosines(a.freqs.row<const float>(position), rotated, cross, cosine);
                sines_to_cross(cross, rotated, a.interleaved, a.transposed);
            }
        }
        const T *input = a.input.row<const T>(r);
        T *output = a.output.row<T>(r);
        rotate_row(input, output, a.stream, rotated, a.interleaved, cosine, cross);
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

constexpr Operand one_at_positions[] = {{"input"}, {"positions", false}, {"cos"}, {"sin"}, {"output"}};
constexpr Operand two_at_positions[] = {{"query"}, {"key"},       {"positions", false}, {"cos"},
                                        {"sin"},   {"query_out"}, {"key_out"}};

template<const auto &operands>
opdock::Status check_operands(const opdock::Problem &problem) {
    opdock::Status valid = check_table_rows(problem);
    return valid.ok() ? check_rows(problem, operands) : std::move(valid);
}

// Rotates input i into output i, as `a` describes.
void rotate(const opdock::Call &call, uint32_t i, Rope a) {
    const Knobs knobs = Knobs::of(call);
    const DLTensor &shape = *call.output(i);
    a.t = shape.dtype;
    a.input = Rows::of_input(call, i);
    a.output = Rows::of_output(call, i);
    a.dims = row_size(shape);
    a.interleaved = call.get_bool(0);
    a.stream = knobs.stream;
    in_chunks(row_count(shape), 2 * a.dims * element_bytes(shape), knobs, HWY_DYNAMIC_DISPATCH(rope_rows), a);
}

template<bool transposed>
opdock::Status run(const opdock::Call &call) {
    const uint32_t freqs = call.c().n_inputs - 1;
    Rope a = {};
    a.freqs = Rows::of_input(call, freqs);
    a.rotated = row_size(*call.input(freqs));
    a.transposed = transposed;
    for (uint32_t i = 0; i < freqs; ++i) {
        a.per_position = call.output(i)->shape[1] * call.output(i)->shape[2];
        rotate(call, i, a);
    }
    return {};
}

template<bool transposed>
opdock::Status run_at_positions(const opdock::Call &call) {
    Rope a = {};
    a.tables = PositionTables(call);
    opdock::Status valid = a.tables.check();
    if (!valid.ok())
        return valid;
    a.rotated = 2 * a.tables.pairs();
    a.transposed = transposed;
    for (uint32_t i = 0; i + 3 < call.c().n_inputs; ++i) {
        a.per_position = call.output(i)->shape[1];
        rotate(call, i, a);
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
    const auto one = opdock::supports<&check_operands<one_at_positions>>;
    const auto two = opdock::supports<&check_operands<two_at_positions>>;
    plugin.add(ops::rope_positions, with_positions, {opdock::kernel<&run_at_positions<false>>, one});
    plugin.add(ops::rope_positions_bwd, with_positions, {opdock::kernel<&run_at_positions<true>>, one});
    plugin.add(ops::rope_qk_positions, with_positions, {opdock::kernel<&run_at_positions<false>>, two});
    plugin.add(ops::rope_qk_positions_bwd, with_positions, {opdock::kernel<&run_at_positions<true>>, two});
}

} // namespace cpu
#endif
