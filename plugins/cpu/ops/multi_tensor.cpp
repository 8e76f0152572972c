// multi_tensor_l2norm and multi_tensor_scale.
#include <atomic>
#include <cfloat>
#include <cmath>

#include "lists.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/multi_tensor.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Sums in f64: squares of f32 and bf16 exceed the range of f32, and small values must not vanish.
template<class T>
double squares(const T *elements, size_t count) {
    const hn::ScalableTag<double> f64;
    auto low = hn::Zero(f64), high = low;
    along(count, [&](size_t i, auto extent) HWY_ATTR {
        const VF v = load(elements + i, extent);
#if HWY_TARGET == HWY_SCALAR // its single lane has no halves
        const auto first = hn::PromoteTo(f64, v), second = hn::Zero(f64);
#else
        const hn::Half<F32> half;
        const auto first = hn::PromoteTo(f64, hn::LowerHalf(half, v));
        const auto second = hn::PromoteTo(f64, hn::UpperHalf(half, v));
#endif
        low = hn::MulAdd(first, first, low);
        high = hn::MulAdd(second, second, high);
    });
    return hn::GetLane(hn::SumOfLanes(f64, hn::Add(low, high)));
}

// Returns true if every product is finite as stored.
template<class T>
bool scale_elements(T *elements, size_t count, float scale) {
    const VF by = hn::Set(f32, scale), most = hn::Set(f32, FLT_MAX);
    auto finite = hn::FirstN(f32, hn::Lanes(f32));
    along(count, [&](size_t i, auto extent) HWY_ATTR {
        const VF stored = store_rounded(hn::Mul(load(elements + i, extent), by), elements + i, extent);
        finite = hn::And(finite, hn::Le(hn::Abs(stored), most));
    });
    return hn::AllTrue(f32, finite);
}

double squares_of(DLDataType t, const void *elements, size_t count) {
    double sum = 0;
    opdock::visit_floating(t, [&](auto tag) {
        using T = typename decltype(tag)::type;
        sum = squares(static_cast<const T *>(elements), count);
    });
    return sum;
}

bool scale_chunk(DLDataType t, void *elements, size_t count, float scale) {
    bool finite = true;
    opdock::visit_floating(t, [&](auto tag) {
        using T = typename decltype(tag)::type;
        finite = scale_elements(static_cast<T *>(elements), count, scale);
    });
    return finite;
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(squares_of);
HWY_EXPORT(scale_chunk);

namespace {

// Calls work(index, dtype, first element, elements) for chunks of the first parameter's list.
template<class Work>
void for_one_list(const opdock::Call &call, const Chunks &chunks, int64_t accesses, const Work &work) {
    if (chunks.count() == 0)
        return;
    const DLDataType t = call.inputs_of(0)[0]->dtype;
    const int64_t bytes = t.bits / 8;
    for_each_chunk(chunks, accesses * bytes, Knobs::of(call), [&](int64_t i, const Chunk &chunk) {
        std::byte *first = elements<std::byte>(call, 0, {chunk.tensor, 0, 0}) + chunk.begin * bytes;
        work(i, t, first, static_cast<size_t>(chunk.end - chunk.begin));
    });
}

opdock::Status check_norm(const opdock::Problem &problem) {
    return check_lists(problem, {"inputs"});
}

// One sum per chunk.
uint64_t norm_workspace(const opdock::Problem &problem) {
    return static_cast<uint64_t>(Chunks(problem.inputs_of(0)).count()) * sizeof(double);
}

opdock::Status norm(const opdock::Call &call) {
    const Chunks chunks(call.inputs_of(0));
    auto *sums = static_cast<double *>(call.workspace());
    for_one_list(call, chunks, 1, [&](int64_t i, DLDataType t, const void *first, size_t count) {
        sums[i] = HWY_DYNAMIC_DISPATCH(squares_of)(t, first, count);
    });
    double total = 0;
    for (int64_t i = 0; i < chunks.count(); ++i)
        total += sums[i];
    call.output<float>(0)[0] = static_cast<float>(std::sqrt(total));
    return {};
}

opdock::Status check_scale(const opdock::Problem &problem) {
    return check_lists(problem, {"tensors"});
}

opdock::Status scale(const opdock::Call &call) {
    const float by = call.input<const float>(1)[0];
    std::atomic<bool> finite = true;
    for_one_list(call, Chunks(call.inputs_of(0)), 2, [&](int64_t, DLDataType t, void *first, size_t count) {
        if (!HWY_DYNAMIC_DISPATCH(scale_chunk)(t, first, count, by))
            finite.store(false, std::memory_order_relaxed);
    });
    if (const auto found_inf = call.input<int32_t>(2); found_inf && !finite)
        found_inf[0] = 1;
    return {};
}

} // namespace

void add_multi_tensor(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::multi_tensor_l2norm, any_float,
               {opdock::kernel<&norm>, opdock::supports<&check_norm>, opdock::workspace_size<&norm_workspace>});
    plugin.add(ops::multi_tensor_scale, any_float, {opdock::kernel<&scale>, opdock::supports<&check_scale>});
}

} // namespace cpu
#endif
