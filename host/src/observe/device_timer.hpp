// Times calls on a device with events of its provider. Nobody waits for the device: an event is read
// when it is needed again, many calls later, or at the end.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "devices/devices.hpp"

namespace opdock::core {

class DeviceTimer {
  public:
    struct Span {
        void *begin = nullptr;
        void *end = nullptr;
    };
    // Receives a time in nanoseconds.
    using Told = std::function<void(uint64_t nanoseconds)>;

    // `provider` is the device's provider; it and `api` must outlive this.
    DeviceTimer(const opdock_host_api &api, const DeviceProvider &provider, DLDevice device);
    DeviceTimer(const DeviceTimer &) = delete;
    DeviceTimer &operator=(const DeviceTimer &) = delete;

    // [any thread] Around a call on `stream`. Nothing is timed (a span without events) if the stream
    // is being captured into a graph or if the device has no event to give.
    Span begin(void *stream) noexcept;
    // `told` is called later, by a thread that needs the events, or never.
    void end(Span span, void *stream, Told told) noexcept;
    void drop(Span span) noexcept;
    // Waits for pending spans and releases the events.
    void finish() noexcept;

    // Held while the process forks.
    std::mutex &mutex() { return mutex_; }
    // In a forked child: neither waits for nor releases anything of the parent's.
    void forget() noexcept;

  private:
    struct Pending {
        Span span;
        Told told;
    };

    bool record(void *event, void *stream) const noexcept;
    bool make(Span &span) const noexcept;
    // Reports the oldest one.
    void tell_one() noexcept;

    // More than the calls in a device's queue: a span of that age has usually completed.
    static constexpr size_t most_pending = 2048;

    const opdock_host_api &api_;
    const opdock_device_provider &table_;
    const DLDevice device_;
    std::mutex mutex_;
    std::deque<Pending> pending_;
    std::vector<Span> free_;
};

} // namespace opdock::core
