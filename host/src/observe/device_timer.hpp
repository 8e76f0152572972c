// Times calls on a device by events of its provider. Nobody waits for the device: what an event says is asked for when
// it is needed again, many calls later, or at the end.
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
    // What becomes of a time, in nanoseconds.
    using Told = std::function<void(uint64_t nanoseconds)>;

    // `provider` is the device's; both have to outlive this.
    DeviceTimer(const opdock_host_api &api, const DeviceProvider &provider, DLDevice device);
    DeviceTimer(const DeviceTimer &) = delete;
    DeviceTimer &operator=(const DeviceTimer &) = delete;

    // [any thread] Around a call on `stream`. Nothing is timed (a span without events) where the stream is being
    // captured into a graph and where the device has no event to give.
    Span begin(void *stream) noexcept;
    // `told` is called later, by whoever comes to need the events, or never.
    void end(Span span, void *stream, Told told) noexcept;
    void drop(Span span) noexcept;
    // Waits for what is still under way, and gives the events back.
    void finish() noexcept;

    // Held while the process forks.
    std::mutex &mutex() { return mutex_; }
    // In a forked child: nothing of the parent's is waited for or given back.
    void forget() noexcept;

  private:
    struct Pending {
        Span span;
        Told told;
    };

    bool record(void *event, void *stream) const noexcept;
    bool make(Span &span) const noexcept;
    // Of the oldest.
    void tell_one() noexcept;

    // More calls than a device's queue holds: whose events are that old has mostly run.
    static constexpr size_t most_pending = 2048;

    const opdock_host_api &api_;
    const opdock_device_provider &table_;
    const DLDevice device_;
    std::mutex mutex_;
    std::deque<Pending> pending_;
    std::vector<Span> free_;
};

} // namespace opdock::core
