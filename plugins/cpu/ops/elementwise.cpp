// add and mul.
#include "elementwise.hpp"
#include "ops/ops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

void add_run(const Run &run, float alpha) {
    const VF factor = hn::Set(f32, alpha);
    map_binary(run, [factor](VF a, VF b) HWY_ATTR { return hn::MulAdd(b, factor, a); });
}

void mul_run(const Run &run) {
    map_binary(run, [](VF a, VF b) HWY_ATTR { return hn::Mul(a, b); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(add_run);
HWY_EXPORT(mul_run);

namespace {

constexpr Operand operands[] = {{"a"}, {"b"}, {"output"}};

opdock::Status check(const opdock::Problem &problem) {
    return check_rows(problem, operands);
}

opdock::Status run_add(const opdock::Call &call) {
    const auto alpha = static_cast<float>(call.get_float(0));
    return elementwise(call, 2, [=](const Run &run) { HWY_DYNAMIC_DISPATCH(add_run)(run, alpha); });
}

opdock::Status run_mul(const opdock::Call &call) {
    return elementwise(call, 2, [](const Run &run) { HWY_DYNAMIC_DISPATCH(mul_run)(run); });
}

} // namespace

void add_elementwise(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::add, any_float, {opdock::kernel<&run_add>, opdock::supports<&check>});
    plugin.add(ops::mul, any_float, {opdock::kernel<&run_mul>, opdock::supports<&check>});
}

} // namespace cpu
#endif
