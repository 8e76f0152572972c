#include "devices/device_memory.hpp"

#include <spdlog/fmt/fmt.h>

#include "load/plugin_call.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

const opdock_device_provider &table_of(const Devices &devices, DLDevice device) {
    const DeviceProvider *provider = find_provider(devices.providers(), device.device_type);
    if (provider == nullptr) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("no plugin provides {}", devices.text(device)));
    }
    if (const std::string missing = devices.missing(device); !missing.empty()) {
        throw Error(OPDOCK_INVALID_ARGUMENT, missing);
    }
    return provider->table;
}

} // namespace

DeviceAccess::DeviceAccess(const Devices &devices, DLDevice device, void *stream)
    : devices_(devices), device_(device), stream_(stream), table_(table_of(devices, device)) {}

template<class Call>
void DeviceAccess::check(const char *what, Call call) const {
    const opdock_status status = call_plugin(call);
    if (status != OPDOCK_OK) {
        throw Error(status, fmt::format("{} on {} failed: {}", what, devices_.text(device_), take_message(status)));
    }
}

void *DeviceAccess::allocate(uint64_t bytes) const {
    void *memory = nullptr;
    if (bytes != 0) {
        check("allocating", [&] {
            return table_.allocate(&devices_.api(), table_.user_data, device_.device_id, stream_, bytes, &memory);
        });
    }
    return memory;
}

void DeviceAccess::free(void *memory) const {
    if (memory != nullptr) {
        check("freeing",
              [&] { return table_.free(&devices_.api(), table_.user_data, device_.device_id, stream_, memory); });
    }
}

void DeviceAccess::copy(void *to, DLDevice to_device, const void *from, DLDevice from_device, uint64_t bytes) const {
    if (bytes != 0) {
        check("copying", [&] {
            return table_.copy(&devices_.api(), table_.user_data, to, to_device, from, from_device, bytes, stream_);
        });
    }
}

void DeviceAccess::copy_to_host(void *to, const void *from, uint64_t bytes) const {
    copy(to, {kDLCPU, 0}, from, device_, bytes);
    synchronize();
}

void DeviceAccess::copy_from_host(void *to, const void *from, uint64_t bytes) const {
    copy(to, device_, from, {kDLCPU, 0}, bytes);
    synchronize();
}

void DeviceAccess::copy(void *to, const void *from, uint64_t bytes) const {
    copy(to, device_, from, device_, bytes);
    synchronize();
}

void DeviceAccess::synchronize() const {
    check("waiting",
          [&] { return table_.stream_synchronize(&devices_.api(), table_.user_data, device_.device_id, stream_); });
}

void DeviceAccess::notify(void (*function)(void *argument), void *argument) const {
    if (table_.stream_callback == nullptr) {
        throw Error(OPDOCK_UNSUPPORTED,
                    fmt::format("the provider of {} has no stream_callback", devices_.text(device_)));
    }
    check("registering a callback for finished work", [&] {
        return table_.stream_callback(&devices_.api(), table_.user_data, device_.device_id, stream_, function,
                                      argument);
    });
}

DeviceInUse::DeviceInUse(const DeviceAccess &access) : current_(access.devices_.enter(access.device_)) {
    access.check("making the device current", [&] { return current_.status(); });
}

DeviceMemory::~DeviceMemory() {
    try {
        access_.free(memory_);
    } catch (...) { // NOLINT(bugprone-empty-catch): it was used for measuring only; the device will report this again
    }
}

DeviceEvent::DeviceEvent(const DeviceAccess &access) : access_(access) {
    access_.check("creating an event", [&] {
        return access_.table_.event_create(&access_.devices_.api(), access_.table_.user_data, access_.device_.device_id,
                                           &event_);
    });
}

DeviceEvent::~DeviceEvent() {
    call_plugin([&] {
        return access_.table_.event_destroy(&access_.devices_.api(), access_.table_.user_data,
                                            access_.device_.device_id, event_);
    });
}

void DeviceEvent::record() {
    access_.check("recording an event", [&] {
        return access_.table_.event_record(&access_.devices_.api(), access_.table_.user_data, access_.device_.device_id,
                                           event_, access_.stream_);
    });
}

double DeviceEvent::microseconds_until(const DeviceEvent &end) const {
    float milliseconds = 0;
    access_.check("timing", [&] {
        return access_.table_.event_elapsed(&access_.devices_.api(), access_.table_.user_data,
                                            access_.device_.device_id, event_, end.event_, &milliseconds);
    });
    return static_cast<double>(milliseconds) * 1000;
}

} // namespace opdock::core
