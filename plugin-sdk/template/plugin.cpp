// SPDX-License-Identifier: Apache-2.0
// Who I am and what I register.
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

// What depends on the machine or the environment belongs in Impl::available: this is the same everywhere.
//
// impl_id names the implementation in policies and logs; dtypes are what T may be; tune_version is raised when tuned
// knobs are no longer worth anything. opdock/abi/impl.h describes each of these, and those not used here.
void register_all(opdock::Registry &registry) {
    // The vendor as frameworks know it: its name, its device as a framework calls it ("npu"), the framework's dispatch
    // key for it ("PrivateUse1"), and a command that exits with 0 where the device is ("acme-smi -L"), which is asked
    // where nobody provides such devices. Empty: none, as for the CPU.
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
