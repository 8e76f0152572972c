// quantize and dequantize.
#include <atomic>
#include <cmath>
#include <cstring>

#include "elementwise.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantize.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/fp8-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Returns the largest |input| as the bits of an f32; NaN compares as the largest.
template<class T, class F>
uint32_t quantize_elements(const Run &run, float scale) {
    const auto *input = static_cast<const T *>(run.inputs[0]);
    const Sink<F> output(static_cast<F *>(run.outputs[0]), run.stream);
    const VF by = hn::Set(f32, scale);
    VU32 largest = hn::Zero(u32);
    along(run.count, [&](size_t i, auto extent) HWY_ATTR {
        const VF x = load(input + i, extent);
        largest = hn::Max(largest, hn::BitCast(u32, hn::Abs(x)));
        output.store(hn::Mul(x, by), i, extent);
    });
    return hn::GetLane(hn::MaxOfLanes(u32, largest));
}

uint32_t quantize_run(const Run &run, float scale) {
    uint32_t largest = 0;
    opdock::visit_floating(run.from, [&](auto t) {
        opdock::visit_float8(run.to, [&](auto f) {
            largest = quantize_elements<typename decltype(t)::type, typename decltype(f)::type>(run, scale);
        });
    });
    if (run.stream)
        hwy::FlushStream();
    return largest;
}

void dequantize_run(const Run &run, float scale) {
    opdock::visit_float8(run.from, [&](auto f) {
        opdock::visit_floating(run.to, [&](auto t) HWY_ATTR {
            using F = typename decltype(f)::type;
            using T = typename decltype(t)::type;
            const auto *input = static_cast<const F *>(run.inputs[0]);
            const Sink<T> output(static_cast<T *>(run.outputs[0]), run.stream);
            const VF by = hn::Set(f32, scale);
            along(run.count, [=](size_t i, auto extent)
                                 HWY_ATTR { output.store(hn::Mul(load(input + i, extent), by), i, extent); });
        });
    });
    if (run.stream)
        hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(quantize_run);
HWY_EXPORT(dequantize_run);

namespace {

constexpr Operand quantize_operands[] = {{"input"}, {"scale", false}, {"amax", false}, {"output"}};
constexpr Operand dequantize_operands[] = {{"input"}, {"scale_inv", false}, {"output"}};

opdock::Status check_quantize(const opdock::Problem &problem) {
    return check_rows(problem, quantize_operands);
}
opdock::Status check_dequantize(const opdock::Problem &problem) {
    return check_rows(problem, dequantize_operands);
}

// Returns NaN if either argument is NaN.
float larger(float a, float b) {
    return std::isnan(a) || a >= b ? a : b;
}

opdock::Status quantize_all(const opdock::Call &call) {
    const float scale = call.input<const float>(1)[0];
    std::atomic<uint32_t> largest = 0; // independent of the order of the threads
    opdock::Status status = elementwise(call, 1, [&](const Run &run) {
        const uint32_t found = HWY_DYNAMIC_DISPATCH(quantize_run)(run, scale);
        uint32_t known = largest.load(std::memory_order_relaxed);
        while (found > known && !largest.compare_exchange_weak(known, found, std::memory_order_relaxed)) {
        }
    });
    if (const auto amax = call.input<float>(2); amax && element_count(*call.input(0)) > 0) {
        const uint32_t bits = largest;
        float found;
        std::memcpy(&found, &bits, sizeof found);
        amax[0] = larger(amax[0], found);
    }
    return status;
}

opdock::Status dequantize_all(const opdock::Call &call) {
    const float scale = call.input<const float>(1)[0];
    return elementwise(call, 1, [=](const Run &run) { HWY_DYNAMIC_DISPATCH(dequantize_run)(run, scale); });
}

} // namespace

void add_quantize(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::quantize, to_fp8, {opdock::kernel<&quantize_all>, opdock::supports<&check_quantize>});
    plugin.add(ops::dequantize, from_fp8, {opdock::kernel<&dequantize_all>, opdock::supports<&check_dequantize>});
}

} // namespace cpu
#endif
