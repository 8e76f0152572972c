// SPDX-License-Identifier: Apache-2.0
// Identity of the plugin and its registrations.
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

#include "heuristics.hpp"
#include "ops/ops.hpp"

// Plugin id, version, vendor, device types, CPU features that the code needs ("avx2,fma") or "". Hosts read this from
// the file before they run any of its code.
OPDOCK_NOTE("example", EXAMPLE_VERSION, "example", "cpu", "")

namespace {

using opdock::Impl;
using opdock::kernel;

// Checks of the machine or the environment belong in Impl::available: registration is the same everywhere.
//
// impl_id names the implementation in policies and logs; dtypes are the types of T; raise tune_version when tuned knobs
// become obsolete. opdock/abi/impl.h describes these settings, and those not used here.
void register_all(opdock::Registry &registry) {
    // The vendor as known to frameworks: its name, its device in a framework ("npu"), the framework's dispatch key for
    // it ("PrivateUse1"), and a command that exits with 0 if the device is present ("acme-smi -L"), used only if nobody
    // provides such devices. Empty strings mean none, as for the CPU.
    registry.vendor({"example", "", "", ""});
    registry.implement(opdock::ops::silu,
                       Impl("vendor.example")
                           .dtypes("f32|f16|bf16")
                           .deterministic()
                           .tune_version(1)
                           .knob("block", 1, example::max_block, 256, "Elements widened to float at a time.")
                           .heuristic(opdock::heuristic<&example::pick_block>)
                           .kernel(kernel<&example::silu>));
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
