// Identity of the plugin and its registrations.
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

#include "heuristics.hpp"
#include "ops/ops.hpp"

OPDOCK_NOTE("acme", ACME_VERSION, "acme", "cpu", "")

namespace {

using opdock::Impl;
using opdock::kernel;

void register_all(opdock::Registry &registry) {
    registry.vendor({"acme", "acme-cpu", "", ""});

    const Impl start = Impl("vendor.acme")
                           .deterministic()
                           .tune_version(1)
                           .knob("block", 1, acme::max_block, 256, "Elements widened to float at a time.")
                           .heuristic(opdock::heuristic<&acme::pick_block>);
    const char *weighted = "f32,f32|f16,f16|f16,f32|bf16,bf16|bf16,f32";

    registry.implement(opdock::ops::rmsnorm_fwd, Impl(start).dtypes(weighted).kernel(kernel<&acme::rmsnorm_fwd>));
    registry.implement(opdock::ops::silu_and_mul,
                       Impl(start).dtypes("f32|f16|bf16").kernel(kernel<&acme::silu_and_mul>));
    registry.implement(acme::scaled_residual_op, Impl(start).dtypes(weighted).kernel(kernel<&acme::scaled_residual>));
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
