#include "files/file_times.hpp"

#include <chrono>
#include <ctime>
#include <thread>

namespace opdock::core {

void wait_until_changes_show(const FileIdentity &identity) {
    constexpr std::int64_t longest_tick = 10'000'000; // for kernels with 100 ticks per second
    const auto left = [&] {
        timespec tick = {};
        ::clock_gettime(CLOCK_REALTIME_COARSE, &tick);
        return identity.changed - (std::int64_t{tick.tv_sec} * 1'000'000'000 + tick.tv_nsec);
    };
    for (std::int64_t now = left(); now >= 0 && now <= longest_tick; now = left()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

} // namespace opdock::core
