#include "observe/call_table.hpp"

#include <algorithm>

namespace opdock::core {
namespace {

// NUL is a safe separator: names have none.
std::string key_of(const CallText &text) {
    std::string key;
    for (const std::string &part : {text.op, text.impl_id, text.device, text.arguments(), text.config}) {
        key += part;
        key += '\0';
    }
    return key;
}

Latency latency_of(const LatencyHistogram &histogram, bool on_device) {
    Latency latency;
    latency.on_device = on_device;
    latency.sum = histogram.sum();
    for (size_t i = 0; i < latency.counts.size(); ++i) {
        latency.counts.at(i) = histogram.count(i);
    }
    return latency;
}

bool is_empty(const Latency &latency) {
    return std::all_of(latency.counts.begin(), latency.counts.end(), [](uint64_t count) { return count == 0; });
}

} // namespace

double SampledTime::mean() const {
    const uint64_t timed = count.load(std::memory_order_relaxed);
    return timed != 0 ? static_cast<double>(sum.load(std::memory_order_relaxed)) / static_cast<double>(timed)
                      : static_cast<double>(first.load(std::memory_order_relaxed));
}

void SampledTime::add(uint64_t nanoseconds, bool is_first) {
    if (is_first) {
        first.store(nanoseconds, std::memory_order_relaxed);
        return;
    }
    sum.fetch_add(nanoseconds, std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_relaxed);
}

void SampledTime::clear() {
    for (std::atomic<uint64_t> *number : {&first, &count, &sum}) {
        number->store(0, std::memory_order_relaxed);
    }
}

double CountedCall::total() const {
    const double one = device.mean() > 0 ? device.mean() : host.mean();
    return one * static_cast<double>(calls.load(std::memory_order_relaxed));
}

void CountedCall::add_host_time(uint64_t number, uint64_t nanoseconds) {
    host.add(nanoseconds, number == 0);
    if (number != 0) {
        times->host.add(nanoseconds);
    }
}

void CountedCall::add_device_time(uint64_t number, uint64_t nanoseconds) {
    device.add(nanoseconds, number == 0);
    if (number != 0) {
        times->device.add(nanoseconds);
    }
}

ImplementationTimes &CallTable::times_of(const CallText &text) {
    auto &times = times_[{text.op, text.impl_id, text.device}];
    if (!times) {
        times = std::make_unique<ImplementationTimes>();
    }
    return *times;
}

CountedCall &CallTable::find(CallText text, const std::function<void(CountedCall &)> &added) {
    std::string key = key_of(text);
    auto found = calls_.find(key);
    const bool has_room = found != calls_.end() || n_described_ < most_calls_;
    if (!has_room) {
        CallText others;
        others.op = text.op;
        others.impl_id = text.impl_id;
        others.device = text.device;
        text = std::move(others);
        key = key_of(text);
        found = calls_.find(key);
    }
    if (found != calls_.end()) {
        return *found->second;
    }
    auto made = std::make_unique<CountedCall>();
    made->times = &times_of(text);
    made->text = std::move(text);
    made->is_described = has_room;
    CountedCall &call = *calls_.emplace(std::move(key), std::move(made)).first->second;
    n_described_ += has_room ? 1 : 0;
    added(call);
    return call;
}

std::vector<const CountedCall *> CallTable::by_time() const {
    std::vector<std::pair<double, const CountedCall *>> timed; // a copy, since counters change meanwhile
    for (const auto &[key, call] : calls_) {
        if (call->calls.load(std::memory_order_relaxed) != 0) {
            timed.emplace_back(call->total(), call.get());
        }
    }
    std::stable_sort(timed.begin(), timed.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    std::vector<const CountedCall *> calls;
    calls.reserve(timed.size());
    for (const auto &[total, call] : timed) {
        calls.push_back(call);
    }
    return calls;
}

std::vector<Latency> CallTable::latencies() const {
    std::vector<Latency> all;
    for (const auto &[key, times] : times_) {
        for (const bool on_device : {false, true}) {
            Latency latency = latency_of(on_device ? times->device : times->host, on_device);
            if (!is_empty(latency)) {
                std::tie(latency.op, latency.impl_id, latency.device) = key;
                all.push_back(std::move(latency));
            }
        }
    }
    return all;
}

void CallTable::clear_counters() {
    for (const auto &[key, call] : calls_) {
        call->calls.store(0, std::memory_order_relaxed);
        call->host.clear();
        call->device.clear();
    }
    for (const auto &[key, times] : times_) {
        times->host.clear();
        times->device.clear();
    }
}

} // namespace opdock::core
