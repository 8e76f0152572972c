// Loops of elementwise ops of one dtype: output[i] = f(a[i]) or f(a[i], b[i]) for a run of elements.
//
// Included once per target; see hwy/foreach_target.h.
#if defined(CPU_SIMD_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CPU_SIMD_MAP_INL_H
#undef CPU_SIMD_MAP_INL_H
#else
#define CPU_SIMD_MAP_INL_H
#endif

#include "elementwise.hpp"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// f(VF) -> VF
template<class F>
void map_unary(const Run &run, F f) {
    opdock::visit_floating(run.to, [&](auto tag) HWY_ATTR {
        using T = typename decltype(tag)::type;
        const auto *a = static_cast<const T *>(run.inputs[0]);
        const Sink<T> output(static_cast<T *>(run.outputs[0]), run.stream);
        along(run.count, [=](size_t i, auto extent) HWY_ATTR { output.store(f(load(a + i, extent)), i, extent); });
    });
    if (run.stream)
        hwy::FlushStream();
}

// f(VF, VF) -> VF
template<class F>
void map_binary(const Run &run, F f) {
    opdock::visit_floating(run.to, [&](auto tag) HWY_ATTR {
        using T = typename decltype(tag)::type;
        const auto *a = static_cast<const T *>(run.inputs[0]);
        const auto *b = static_cast<const T *>(run.inputs[1]);
        const Sink<T> output(static_cast<T *>(run.outputs[0]), run.stream);
        along(run.count, [=](size_t i, auto extent)
                             HWY_ATTR { output.store(f(load(a + i, extent), load(b + i, extent)), i, extent); });
    });
    if (run.stream)
        hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#endif
