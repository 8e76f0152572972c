// Identity of the plugin and its registrations: a device type, and the ops that run on it.
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

#include "device.hpp"
#include "ops/ops.hpp"

OPDOCK_NOTE("npu", NPU_VERSION, "nova", "npu", "")

namespace {

void register_all(opdock::Registry &registry) {
    registry.device(npu::provider());
    // The vendor as known to frameworks: torch calls the device "npu" and dispatches by PrivateUse1. No query command
    // is needed, since the provider counts the devices.
    registry.vendor({"nova", "npu", "PrivateUse1", ""});
    registry.implement(
        opdock::ops::relu,
        opdock::Impl("vendor.nova").device(npu::type).dtypes("f32").deterministic().kernel(opdock::kernel<&npu::relu>));
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
