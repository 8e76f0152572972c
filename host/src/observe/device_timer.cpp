#include "observe/device_timer.hpp"

#include <cmath>
#include <utility>

#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"

namespace opdock::core {
namespace {

// A failing provider leaves a message that is not about the call.
template<typename Function>
bool works(Function function) noexcept {
    const bool is_fine = status_of(function) == OPDOCK_OK;
    if (!is_fine && opdock_thread_state != nullptr) {
        opdock_thread_state->forget_message();
    }
    return is_fine;
}

} // namespace

DeviceTimer::DeviceTimer(const opdock_host_api &api, const DeviceProvider &provider, DLDevice device)
    : api_(api), table_(provider.table), device_(device) {}

bool DeviceTimer::record(void *event, void *stream) const noexcept {
    return works([&] { return table_.event_record(&api_, table_.user_data, device_.device_id, event, stream); });
}

bool DeviceTimer::make(Span &span) const noexcept {
    const auto create = [&](void **event) {
        return works([&] { return table_.event_create(&api_, table_.user_data, device_.device_id, event); });
    };
    return create(&span.begin) && create(&span.end);
}

DeviceTimer::Span DeviceTimer::begin(void *stream) noexcept {
    const Uncancellable host_work;
    int32_t is_capturing = 0;
    const bool is_known = works(
        [&] { return table_.stream_is_capturing(&api_, table_.user_data, device_.device_id, stream, &is_capturing); });
    if (!is_known || is_capturing != 0) {
        return {};
    }
    Span span;
    {
        const std::lock_guard lock(mutex_);
        if (free_.empty() && pending_.size() >= most_pending) {
            tell_one();
        }
        if (!free_.empty()) {
            span = free_.back();
            free_.pop_back();
        }
    }
    if (span.begin == nullptr && !make(span)) {
        drop(span);
        return {};
    }
    if (!record(span.begin, stream)) {
        drop(span);
        return {};
    }
    return span;
}

void DeviceTimer::end(Span span, void *stream, Told told) noexcept {
    if (span.begin == nullptr) {
        return;
    }
    const Uncancellable host_work;
    if (!record(span.end, stream)) {
        drop(span);
        return;
    }
    try {
        const std::lock_guard lock(mutex_);
        pending_.push_back({span, std::move(told)});
    } catch (const std::bad_alloc &) {
        drop(span);
    }
}

void DeviceTimer::drop(Span span) noexcept {
    const Uncancellable host_work;
    for (void *event : {span.begin, span.end}) {
        if (event != nullptr) {
            (void)works([&] { return table_.event_destroy(&api_, table_.user_data, device_.device_id, event); });
        }
    }
}

void DeviceTimer::tell_one() noexcept {
    const Pending oldest = std::move(pending_.front());
    pending_.pop_front();
    float milliseconds = 0;
    const bool is_known = works([&] {
        return table_.event_elapsed(&api_, table_.user_data, device_.device_id, oldest.span.begin, oldest.span.end,
                                    &milliseconds);
    });
    constexpr double nanoseconds_per_millisecond = 1e6;
    if (is_known && std::isfinite(milliseconds) && milliseconds >= 0) {
        oldest.told(static_cast<uint64_t>(double{milliseconds} * nanoseconds_per_millisecond));
    }
    try {
        free_.push_back(oldest.span);
    } catch (const std::bad_alloc &) {
        drop(oldest.span);
    }
}

void DeviceTimer::finish() noexcept {
    const std::lock_guard lock(mutex_);
    while (!pending_.empty()) {
        tell_one();
    }
    for (const Span span : std::exchange(free_, {})) {
        drop(span);
    }
}

void DeviceTimer::forget() noexcept {
    pending_.clear();
    free_.clear();
}

} // namespace opdock::core
