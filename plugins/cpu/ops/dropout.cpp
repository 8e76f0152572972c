// dropout_fwd and dropout_bwd.
#include <algorithm>
#include <cmath>
#include <string>

#include "elementwise.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/flags-inl.h"
#include "simd/memory-inl.h"
#include "simd/philox-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_DROPOUT_ARGUMENTS
#define CPU_DROPOUT_ARGUMENTS
namespace cpu {

struct Dropout {
    uint64_t seed, offset;
    uint64_t threshold; // elements whose word is at least this are kept; 2^32 keeps none
    float scale;        // multiplies the kept elements
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Elements per batch of random words, which stay in L1.
inline constexpr size_t drawn = 1024;

template<class T>
void drop(const Run &run, const Dropout &a) {
    const auto *input = static_cast<const T *>(run.inputs[0]);
    const Sink<T> output(static_cast<T *>(run.outputs[0]), run.stream);
    auto *mask = static_cast<uint8_t *>(run.outputs[1]);
    const VF scale = hn::Set(f32, a.scale);
    const VU32 threshold = hn::Set(u32, static_cast<uint32_t>(a.threshold));
    const Lanes any = hn::FirstN(f32, a.threshold >> 32 != 0 ? 0 : hn::Lanes(f32));
    HWY_ALIGN uint32_t words[drawn + 4 + 4 * hn::MaxLanes(u32)];
    for (size_t begin = 0; begin < run.count; begin += drawn) {
        const size_t end = HWY_MIN(begin + drawn, run.count);
        const uint64_t element = static_cast<uint64_t>(run.first) + begin;
        const size_t skipped = element % 4; // a run may begin in the middle of a counter's words
        philox(element / 4, a.offset, a.seed, (skipped + end - begin + 3) / 4, words);
        const uint32_t *word = words + skipped;
        along(begin, end, [=](size_t i, auto extent) HWY_ATTR {
            const auto dropped = hn::Lt(hn::LoadU(u32, word + (i - begin)), threshold);
            const Lanes kept = hn::AndNot(hn::RebindMask(f32, dropped), any);
            output.store(hn::IfThenElseZero(kept, hn::Mul(load(input + i, extent), scale)), i, extent);
            store_flags(kept, mask + i, extent);
        });
    }
}

template<class T>
void drop_gradient(const Run &run, float factor) {
    const auto *grad = static_cast<const T *>(run.inputs[0]);
    const auto *mask = static_cast<const uint8_t *>(run.inputs[1]);
    const Sink<T> output(static_cast<T *>(run.outputs[0]), run.stream);
    const VF scale = hn::Set(f32, factor);
    along(run.count, [=](size_t i, auto extent) HWY_ATTR {
        const VF scaled = hn::Mul(load(grad + i, extent), scale);
        output.store(hn::IfThenElseZero(load_flags(mask + i, extent), scaled), i, extent);
    });
}

void dropout_fwd_run(const Run &run, const Dropout &a) {
    opdock::visit_floating(run.to, [&](auto t) { drop<typename decltype(t)::type>(run, a); });
    if (run.stream)
        hwy::FlushStream();
}

void dropout_bwd_run(const Run &run, float scale) {
    opdock::visit_floating(run.to, [&](auto t) { drop_gradient<typename decltype(t)::type>(run, scale); });
    if (run.stream)
        hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(dropout_fwd_run);
HWY_EXPORT(dropout_bwd_run);

namespace {

bool is_probability(double p) {
    return p >= 0 && p <= 1;
}

std::string no_probability(double p) {
    return "p: " + std::to_string(p) + " is not a probability; expected 0 <= p <= 1";
}

constexpr Operand forward_operands[] = {{"input"}, {"rng_state", false}, {"output"}, {"mask"}};
constexpr Operand backward_operands[] = {{"grad"}, {"mask"}, {"grad_input"}};

opdock::Status check_forward(const opdock::Problem &problem) {
    return check_rows(problem, forward_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

template<opdock::Status (*check)(const opdock::Problem &)>
opdock::Status supports(const opdock::Problem &problem) {
    const double p = problem.get_float(0);
    return is_probability(p) ? check(problem) : opdock::invalid_argument(no_probability(p));
}

float scale_of(double p) {
    return static_cast<float>(1 / (1 - p));
}

opdock::Status forward(const opdock::Call &call) {
    const double p = call.get_float(0);
    const auto rng_state = call.input<const int64_t>(1);
    const Dropout a = {
        .seed = static_cast<uint64_t>(rng_state[0]),
        .offset = static_cast<uint64_t>(rng_state[1]),
        .threshold = static_cast<uint64_t>(std::floor(p * 0x1p32 + 0.5)),
        .scale = scale_of(p),
    };
    return elementwise(call, 1, [&](const Run &run) { HWY_DYNAMIC_DISPATCH(dropout_fwd_run)(run, a); });
}

opdock::Status backward(const opdock::Call &call) {
    const double p = call.get_float(0);
    return elementwise(call, 2, [=](const Run &run) { HWY_DYNAMIC_DISPATCH(dropout_bwd_run)(run, scale_of(p)); });
}

} // namespace

void add_dropout(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::dropout_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&supports<check_forward>>});
    plugin.add(ops::dropout_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&supports<check_backward>>});
}

} // namespace cpu
#endif
