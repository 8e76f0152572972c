#include "copy_rate.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

#include "cli/statistics.hpp"

namespace opdock::plugin_bench {
namespace {

// Larger than the cache. A device copies this much in the time that a CPU takes for the minimum, and with less the
// start and the end of a copy would dominate.
size_t buffer_bytes(const DeviceFacts &facts) {
    constexpr uint64_t least = uint64_t{64} << 20;
    constexpr uint64_t most = uint64_t{512} << 20;
    const uint64_t wanted = facts.is_cpu() ? std::clamp(2 * facts.cache, least, most) : most;
    return static_cast<size_t>(std::min(wanted, std::max(facts.memory / 16, least)));
}

// From the moment when all threads are ready until the last one is done.
double microseconds_of_threads(std::byte *to, const std::byte *from, size_t bytes) {
    using Clock = std::chrono::steady_clock;
    const size_t count = std::max(1U, std::thread::hardware_concurrency());
    std::barrier together(static_cast<std::ptrdiff_t>(count) + 1);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            const size_t begin = bytes * i / count;
            together.arrive_and_wait();
            std::memcpy(to + begin, from + begin, bytes * (i + 1) / count - begin);
            together.arrive_and_wait();
        });
    }
    together.arrive_and_wait();
    const auto began = Clock::now();
    together.arrive_and_wait();
    const auto ended = Clock::now();
    for (std::thread &thread : threads) {
        thread.join();
    }
    return std::chrono::duration<double, std::micro>(ended - began).count();
}

struct Copy {
    opdock_host *runtime;
    DLDevice device;
    void *to;
    const void *from;
    size_t bytes;
};

opdock_status copy(void *user_data) {
    const Copy &one = *static_cast<const Copy *>(user_data);
    return opdock_device_copy(one.runtime, one.to, one.device, one.from, one.device, one.bytes, nullptr);
}

} // namespace

CopyRate::CopyRate(const Host &host, const DeviceFacts &facts)
    : host_(host), device_(facts.device), bytes_(buffer_bytes(facts)), from_(host, facts.device, bytes_),
      to_(host, facts.device, bytes_) {
    if (facts.is_cpu()) { // pages never written share one page of zeros, and would be read from a cache
        std::memset(from_.get(), 1, bytes_);
    }
    microseconds();
}

double CopyRate::microseconds() const {
    if (device_.device_type == kDLCPU) {
        return microseconds_of_threads(static_cast<std::byte *>(to_.get()), static_cast<const std::byte *>(from_.get()),
                                       bytes_);
    }
    Copy one{host_.c(), device_, to_.get(), from_.get(), bytes_};
    double microseconds = 0;
    detail::check(opdock_device_time(host_.c(), device_, nullptr, copy, &one, &microseconds));
    return microseconds;
}

double CopyRate::measure() const {
    constexpr size_t copies = 7;
    std::vector<double> samples;
    for (size_t i = 0; i < copies; ++i) {
        samples.push_back(microseconds());
    }
    return 2e6 * static_cast<double>(bytes_) / cli::summarize(samples).median;
}

} // namespace opdock::plugin_bench
