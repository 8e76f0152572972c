// kl_div and jsd, with their gradients: one pass over a row of log-probabilities and a row of targets.
#include <cmath>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/divergence.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "simd/math-inl.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_DIVERGENCE_ARGUMENTS
#define CPU_DIVERGENCE_ARGUMENTS
namespace cpu {

enum class DivergenceOf {
    probabilities,     // kl_div
    log_probabilities, // kl_div with log_target, and jsd with beta 0
    reverse,           // jsd with beta 1: divergence of the input from the target
    mixture,           // jsd
};

struct Divergence {
    DLDataType t;
    DivergenceOf of;
    float beta;
    Rows input, target; // the gradient of kl_div needs no input
    Rows loss;
    Rows grad_loss, grad_input;
    int64_t n;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Returns v, or 0 if the weight is 0, because v may be NaN there. A NaN weight keeps v.
HWY_INLINE VF unless_zero(VF weight, VF v) {
    return hn::IfThenElse(hn::Eq(weight, hn::Zero(f32)), hn::Zero(f32), v);
}

// The logarithm of a nonzero number; NaN for NaN and negative numbers.
HWY_INLINE VF log(VF v) {
    return hn::IfThenElse(hn::Gt(v, hn::Zero(f32)), hn::Log(f32, v), hn::Set(f32, NAN));
}

struct FromProbabilities {
    HWY_INLINE VF loss(VF x, VF p) const { return unless_zero(p, hn::Mul(p, hn::Sub(log(p), x))); }
    HWY_INLINE VF gradient(VF, VF p) const { return hn::Neg(p); }
};

struct FromLogProbabilities {
    HWY_INLINE VF loss(VF x, VF y) const {
        const VF p = exp(y);
        return unless_zero(p, hn::Mul(p, hn::Sub(y, x)));
    }
    HWY_INLINE VF gradient(VF, VF y) const { return hn::Neg(exp(y)); }
};

struct Reverse {
    HWY_INLINE VF loss(VF x, VF y) const {
        const VF q = exp(x);
        return unless_zero(q, hn::Mul(q, hn::Sub(x, y)));
    }
    HWY_INLINE VF gradient(VF x, VF y) const {
        const VF q = exp(x);
        return unless_zero(q, hn::Mul(q, hn::Add(hn::Sub(x, y), hn::Set(f32, 1))));
    }
};

struct Mixture {
    VF of_target, of_input; // beta and 1 - beta

    HWY_INLINE VF loss(VF x, VF y) const {
        const VF p = hn::Mul(of_target, exp(y)), q = hn::Mul(of_input, exp(x));
        const VF m = hn::Add(p, q);
        const VF log_m = log(m);
        const VF from_target = unless_zero(p, hn::Mul(p, hn::Sub(y, log_m)));
        const VF from_input = unless_zero(q, hn::Mul(q, hn::Sub(x, log_m)));
        return unless_zero(m, hn::Add(from_target, from_input));
    }
    HWY_INLINE VF gradient(VF x, VF y) const {
        const VF q = hn::Mul(of_input, exp(x));
        const VF m = hn::MulAdd(of_target, exp(y), q);
        return unless_zero(q, hn::Mul(q, hn::Sub(x, log(m))));
    }
};

template<class Visitor>
HWY_INLINE void visit_terms(const Divergence &a, Visitor visit) {
    switch (a.of) {
    case DivergenceOf::probabilities:
        return visit(FromProbabilities{});
    case DivergenceOf::log_probabilities:
        return visit(FromLogProbabilities{});
    case DivergenceOf::reverse:
        return visit(Reverse{});
    case DivergenceOf::mixture:
        return visit(Mixture{hn::Set(f32, a.beta), hn::Set(f32, 1 - a.beta)});
    }
}

template<class T, class Terms>
HWY_INLINE void losses(const Divergence &a, int64_t begin, int64_t end, Terms terms) {
    for (int64_t r = begin; r < end; ++r) {
        const T *input = a.input.row<const T>(r);
        const T *target = a.target.row<const T>(r);
        const double loss = sum(static_cast<size_t>(a.n), [=](size_t i, auto extent, VF s) HWY_ATTR {
            return hn::Add(s, terms.loss(load(input + i, extent), load(target + i, extent)));
        });
        *a.loss.row<float>(r) = static_cast<float>(loss);
    }
}

template<class T, class Terms>
HWY_INLINE void gradients(const Divergence &a, int64_t begin, int64_t end, Terms terms) {
    for (int64_t r = begin; r < end; ++r) {
        const T *target = a.target.row<const T>(r);
        const T *input = a.input ? a.input.row<const T>(r) : target;
        const VF factor = hn::Set(f32, *a.grad_loss.row<const float>(r));
        const Sink<T> output(a.grad_input.row<T>(r), a.stream);
        along(static_cast<size_t>(a.n), [=](size_t i, auto extent) HWY_ATTR {
            const VF gradient = terms.gradient(load(input + i, extent), load(target + i, extent));
            output.store(hn::Mul(factor, gradient), i, extent);
        });
    }
}

void divergence_losses(const Divergence &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) HWY_ATTR {
        visit_terms(a, [&](auto terms) HWY_ATTR { losses<typename decltype(t)::type>(a, begin, end, terms); });
    });
}

void divergence_gradients(const Divergence &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) HWY_ATTR {
        visit_terms(a, [&](auto terms) HWY_ATTR { gradients<typename decltype(t)::type>(a, begin, end, terms); });
    });
    if (a.stream)
        hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(divergence_losses);
HWY_EXPORT(divergence_gradients);

namespace {

constexpr Operand loss_operands[] = {{"input"}, {"target"}, {"loss", false}};
constexpr Operand kl_div_gradient_operands[] = {{"grad_loss", false}, {"target"}, {"grad_input"}};
constexpr Operand jsd_gradient_operands[] = {{"grad_loss", false}, {"input"}, {"target"}, {"grad_input"}};

opdock::Status check_kl_div(const opdock::Problem &problem) {
    return check_rows(problem, loss_operands);
}
opdock::Status check_kl_div_gradient(const opdock::Problem &problem) {
    return check_rows(problem, kl_div_gradient_operands);
}

template<const auto &operands>
opdock::Status check_jsd(const opdock::Problem &problem) {
    const double beta = problem.get_float(0);
    if (!(beta >= 0 && beta <= 1))
        return opdock::invalid_argument("beta: " + std::to_string(beta) + "; expected a number from 0 to 1");
    return check_rows(problem, operands);
}

DivergenceOf of_target(const opdock::Call &call) {
    return call.get_bool(0) ? DivergenceOf::log_probabilities : DivergenceOf::probabilities;
}
DivergenceOf of_beta(const opdock::Call &call) {
    const double beta = call.get_float(0);
    return beta == 0 ? DivergenceOf::log_probabilities : beta == 1 ? DivergenceOf::reverse : DivergenceOf::mixture;
}

// Input number `target` is the target. Sets only the fields that all ops share.
Divergence arguments_of(const opdock::Call &call, uint32_t target, DivergenceOf of) {
    const DLTensor &shape = *call.input(target);
    Divergence a = {};
    a.t = shape.dtype;
    a.of = of;
    a.beta = of == DivergenceOf::mixture ? static_cast<float>(call.get_float(0)) : 0;
    a.target = Rows::of_input(call, target);
    a.n = row_size(shape);
    a.stream = Knobs::of(call).stream;
    return a;
}

template<DivergenceOf (*of)(const opdock::Call &)>
opdock::Status forward(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    Divergence a = arguments_of(call, 1, of(call));
    a.input = Rows::of_input(call, 0);
    a.loss = Rows::of_output(call, 0, 0);
    in_chunks(row_count(input), 2 * a.n * element_bytes(input), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(divergence_losses), a);
    return {};
}

opdock::Status run_backward(const opdock::Call &call, Divergence &a) {
    const DLTensor &output = *call.output(0);
    a.grad_loss = Rows::of_input(call, 0, 0);
    a.grad_input = Rows::of_output(call, 0);
    in_chunks(row_count(output), 3 * a.n * element_bytes(output), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(divergence_gradients), a);
    return {};
}

opdock::Status kl_div_backward(const opdock::Call &call) {
    Divergence a = arguments_of(call, 1, of_target(call));
    return run_backward(call, a);
}

opdock::Status jsd_backward(const opdock::Call &call) {
    Divergence a = arguments_of(call, 2, of_beta(call));
    a.input = Rows::of_input(call, 1);
    return run_backward(call, a);
}

} // namespace

void add_divergence(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::kl_div, any_float, {opdock::kernel<&forward<of_target>>, opdock::supports<&check_kl_div>});
    plugin.add(ops::kl_div_bwd, any_float,
               {opdock::kernel<&kl_div_backward>, opdock::supports<&check_kl_div_gradient>});
    plugin.add(ops::jsd, any_float, {opdock::kernel<&forward<of_beta>>, opdock::supports<&check_jsd<loss_operands>>});
    plugin.add(ops::jsd_bwd, any_float,
               {opdock::kernel<&jsd_backward>, opdock::supports<&check_jsd<jsd_gradient_operands>>});
}

} // namespace cpu
#endif
