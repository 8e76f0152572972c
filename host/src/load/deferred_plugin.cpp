#include "load/deferred_plugin.hpp"

#include <utility>

#include <spdlog/fmt/fmt.h>

#include "load/plugin_call.hpp"

namespace opdock::core {
namespace {

// user_data of the providers of a deferred plugin.
struct ForwardedDevice : DeviceProvider {
    DeferredPlugin *deferred = nullptr;
    size_t number = 0; // index among the providers of its plugin
};

// Opens the plugin and forwards the call to its function.
template<auto Member>
struct Forward;
template<class... Arguments,
         opdock_status (*opdock_device_provider::*Member)(const opdock_host_api *, void *, Arguments...)>
struct Forward<Member> {
    static opdock_status call(const opdock_host_api *host, void *user_data, Arguments... arguments) {
        const ForwardedDevice &device = *static_cast<const ForwardedDevice *>(user_data);
        DeferredPlugin &plugin = *device.deferred;
        if (const Rejection *rejection = plugin.open()) {
            return host->fail(host, OPDOCK_FAILED, plugin.unavailable(*rejection).c_str());
        }
        const opdock_device_provider &real = plugin.outcome()->registration.devices[device.number]->table;
        return (real.*Member)(host, real.user_data, arguments...);
    }
};

std::shared_ptr<const DeviceProvider> forwarded(const DeviceProvider &known, DeferredPlugin &plugin, size_t number) {
    auto device = std::make_shared<ForwardedDevice>();
    device->type = known.type;
    device->stream_type = known.stream_type;
    device->plugin = known.plugin;
    device->deferred = &plugin;
    device->number = number;
    opdock_device_provider &table = device->table;
    table = known.table;
    table.device = device->type.c_str();
    table.stream_type = device->stream_type.c_str();
    table.user_data = device.get();
    table.count = Forward<&opdock_device_provider::count>::call;
    table.properties = Forward<&opdock_device_provider::properties>::call;
    table.get_current = Forward<&opdock_device_provider::get_current>::call;
    table.make_current = Forward<&opdock_device_provider::make_current>::call;
    table.allocate = Forward<&opdock_device_provider::allocate>::call;
    table.free = Forward<&opdock_device_provider::free>::call;
    table.copy = Forward<&opdock_device_provider::copy>::call;
    table.stream_create = Forward<&opdock_device_provider::stream_create>::call;
    table.stream_destroy = Forward<&opdock_device_provider::stream_destroy>::call;
    table.stream_synchronize = Forward<&opdock_device_provider::stream_synchronize>::call;
    table.stream_is_capturing = Forward<&opdock_device_provider::stream_is_capturing>::call;
    table.event_create = Forward<&opdock_device_provider::event_create>::call;
    table.event_destroy = Forward<&opdock_device_provider::event_destroy>::call;
    table.event_record = Forward<&opdock_device_provider::event_record>::call;
    table.event_elapsed = Forward<&opdock_device_provider::event_elapsed>::call;
    if (known.table.stream_callback != nullptr) {
        table.stream_callback = Forward<&opdock_device_provider::stream_callback>::call;
    }
    return device;
}

} // namespace

DeferredPlugin::DeferredPlugin(const PluginOpener &opener, PluginIdentity identity, Place place, Registration known)
    : opener_(opener), identity_(std::move(identity)), place_(std::move(place)), known_(std::move(known)) {
    for (size_t i = 0; i < known_.devices.size(); ++i) {
        known_.devices[i] = forwarded(*known_.devices[i], *this, i);
    }
    for (const auto &implementation : known_.implementations) {
        implementation->deferred = this; // not shared with anybody yet
    }
}

DeferredPlugin::~DeferredPlugin() {
    const std::unique_ptr<const Outcome> owned(outcome_.load());
}

const DeferredPlugin::Outcome &DeferredPlugin::settle(std::unique_ptr<const Outcome> outcome) {
    for (size_t i = 0; i < outcome->registration.implementations.size(); ++i) {
        known_.implementations[i]->opened.store(&outcome->registration.implementations[i]->registered,
                                                std::memory_order_release);
    }
    const Outcome &settled = *outcome.release(); // in a child, the parent thread's outcome is abandoned
    outcome_.store(&settled, std::memory_order_release);
    return settled;
}

std::string DeferredPlugin::unavailable(const Rejection &rejection) const {
    return fmt::format("plugin '{}' was accepted when it was scanned, but could not be opened: {}: {}", identity_.id,
                       code_text(rejection.code), rejection.message);
}

} // namespace opdock::core
