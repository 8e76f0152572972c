// Memory and timing of a device, through its provider. Failures throw Error with the provider's reason.
#pragma once

#include <cstdint>
#include <utility>

#include "devices/devices.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

class DeviceAccess {
  public:
    // Throws Error(OPDOCK_UNSUPPORTED) if the device has no provider.
    DeviceAccess(const Devices &devices, DLDevice device, void *stream);

    void *allocate(uint64_t bytes) const; // null for 0 bytes
    void free(void *memory) const;
    // In stream order; one side may be the host.
    void copy(void *to, DLDevice to_device, const void *from, DLDevice from_device, uint64_t bytes) const;
    // These wait for completion.
    void copy_to_host(void *to, const void *from, uint64_t bytes) const;
    void copy_from_host(void *to, const void *from, uint64_t bytes) const;
    void copy(void *to, const void *from, uint64_t bytes) const;
    void synchronize() const;
    // Calls `function` when all queued work has finished; immediately on the host.
    void notify(void (*function)(void *argument), void *argument) const;
    bool is_host() const { return device_.device_type == kDLCPU; }

  private:
    friend class DeviceEvent;
    friend class DeviceInUse;
    template<class Call>
    void check(const char *what, Call call) const;

    const Devices &devices_;
    const DLDevice device_;
    void *const stream_;
    const opdock_device_provider &table_;
};

// Makes the device current for the calling thread during its lifetime.
class DeviceInUse {
  public:
    explicit DeviceInUse(const DeviceAccess &access);

  private:
    const CurrentDevice current_;
};

class DeviceMemory {
  public:
    DeviceMemory(const DeviceAccess &access, uint64_t bytes) : access_(access), memory_(access.allocate(bytes)) {}
    ~DeviceMemory();
    DeviceMemory(DeviceMemory &&other) noexcept
        : access_(other.access_), memory_(std::exchange(other.memory_, nullptr)) {}
    DeviceMemory(const DeviceMemory &) = delete;
    DeviceMemory &operator=(const DeviceMemory &) = delete;
    DeviceMemory &operator=(DeviceMemory &&) = delete;

    void *get() const { return memory_; }

  private:
    const DeviceAccess &access_;
    void *memory_ = nullptr;
};

class DeviceEvent {
  public:
    explicit DeviceEvent(const DeviceAccess &access);
    ~DeviceEvent();
    DeviceEvent(const DeviceEvent &) = delete;
    DeviceEvent &operator=(const DeviceEvent &) = delete;

    void record();
    // Waits for both events.
    double microseconds_until(const DeviceEvent &end) const;

  private:
    const DeviceAccess &access_;
    void *event_ = nullptr;
};

} // namespace opdock::core
