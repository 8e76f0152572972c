// A vendor's plugin for the tests of the Python package: an op of its own with gradients, and a gelu that serves only
// some calls.
#include <cmath>
#include <stdexcept>

#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

OPDOCK_NOTE("acme", "1.0.0", "acme", "cpu", "")

namespace {

using opdock::Call;
using opdock::Problem;
using opdock::Status;

Status scale(const Call &call) {
    const auto x = call.input<const float>(0);
    const auto y = call.output<float>(0);
    const auto by = static_cast<float>(call.get_float(0));
    for (std::int64_t r = 0; r < x.rows(); ++r) {
        for (std::int64_t i = 0; i < x.size(-1); ++i) {
            y.row(r)[i] = by * x.row(r)[i];
        }
    }
    return {};
}

// Writes the sum of all attributes to each element; a text counts as its size.
Status lists(const Call &call) {
    double sum = call.has_attribute(3) ? call.get_float(3) : 0;
    for (const std::int64_t one : call.get_ints(0)) {
        sum += static_cast<double>(one);
    }
    for (const double one : call.get_floats(1)) {
        sum += one;
    }
    for (const opdock_text &one : call.get_strings(2)) {
        sum += static_cast<double>(one.size);
    }
    sum += static_cast<double>(call.get_string(4).size());
    const auto y = call.output<float>(0);
    for (std::int64_t r = 0; r < y.rows(); ++r) {
        for (std::int64_t i = 0; i < y.size(-1); ++i) {
            y.row(r)[i] = static_cast<float>(sum);
        }
    }
    return {};
}

// Declines rows of 7 elements, fails for 9, and throws for 11.
Status gelu_supports(const Problem &problem) {
    return problem.input(0)->shape[0] == 7 ? opdock::unsupported("it has 7 rows") : Status{};
}

Status gelu(const Call &call) {
    const auto x = call.input<const float>(0);
    if (x.size(0) == 9) {
        return opdock::failed_clean("it has 9 rows");
    }
    if (x.size(0) == 11) {
        throw std::runtime_error("it has 11 rows");
    }
    const auto y = call.output<float>(0);
    for (std::int64_t r = 0; r < x.rows(); ++r) {
        for (std::int64_t i = 0; i < x.size(-1); ++i) {
            const float v = x.row(r)[i];
            y.row(r)[i] = 0.5F * v * (1 + std::tanh(0.7978845608F * (v + 0.044715F * v * v * v)));
        }
    }
    return {};
}

void register_all(opdock::Registry &registry) {
    const opdock::Impl start = opdock::Impl("vendor.acme").deterministic().dtypes("f32");
    constexpr opdock::OpDeclaration scale_op("acme.scale(x: T[..., n], *, by: float = 2.0) -> (y: T[..., n])",
                                             "y = by * x");
    constexpr opdock::OpDeclaration scale_bwd_op(
        "acme.scale_bwd(grad: T[..., n], *, by: float = 2.0) -> (grad_x: T[..., n])", "Of acme.scale.");
    constexpr opdock::OpDeclaration lists_op(
        "acme.lists(x: T[..., n], *, ints: int[] = [1, 2], floats: float[] = [0.5], texts: string[], extra: float?, "
        "mode: string = \"a\\\"b\") -> (y: T[..., n])",
        "Of all kinds of attributes.");
    constexpr opdock::OpDeclaration strange_op("acme.strange(x: T[..., n], *, names: string[] = []) -> (y: T[..., n])",
                                               "Which no schema of torch can say.");
    registry.implement(lists_op, opdock::Impl(start).kernel(opdock::kernel<&lists>));
    registry.implement(strange_op, opdock::Impl(start).kernel(opdock::kernel<&scale>));
    registry.implement(scale_op, opdock::Impl(start).kernel(opdock::kernel<&scale>));
    registry.implement(scale_bwd_op, opdock::Impl(start).kernel(opdock::kernel<&scale>));
    registry.implement(opdock::ops::gelu,
                       opdock::Impl(start).supports(opdock::supports<&gelu_supports>).kernel(opdock::kernel<&gelu>));
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
