// Limits log lines that calls would repeat again and again. The first line is written at once. A pause of a second
// follows, then after each further line one twice as long, up to an hour. Events during a pause are counted, and the
// next line reports the count. After an hour without such a line the pauses start over.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace opdock::core {

class LinePause {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr Clock::duration shortest = std::chrono::seconds(1);
    static constexpr Clock::duration longest = std::chrono::hours(1);
    static constexpr Clock::duration calm = std::chrono::minutes(1);

    bool is_over(Clock::time_point now) const { return now >= until_.load(std::memory_order_relaxed); }
    // Begins the pause after a line that the caller writes. False during a pause and if another thread was first.
    bool begin(Clock::time_point now) {
        Clock::time_point until = until_.load(std::memory_order_relaxed);
        const bool is_calm = until == Clock::time_point::min() || now - until >= longest;
        const Clock::duration pause = is_calm ? shortest : length_.load(std::memory_order_relaxed);
        if (now < until || !until_.compare_exchange_strong(until, now + pause, std::memory_order_relaxed)) {
            return false;
        }
        length_.store(std::min(2 * pause, longest), std::memory_order_relaxed);
        return true;
    }
    // Lets the next line be written at once.
    void end() { until_.store(Clock::time_point::min(), std::memory_order_relaxed); }

    void count_left_out(Clock::time_point now) {
        left_out_.fetch_add(1, std::memory_order_relaxed);
        last_.store(now, std::memory_order_relaxed);
    }
    bool has_left_out() const { return left_out_.load(std::memory_order_relaxed) != 0; }
    // Nothing was left out for some time: the line that is owed can report the current state.
    bool is_settled(Clock::time_point now) const {
        return has_left_out() && now - last_.load(std::memory_order_relaxed) >= calm;
    }
    // Returns the count since the last call of this function.
    uint64_t take_left_out() { return left_out_.exchange(0, std::memory_order_relaxed); }

    // For similar lines: returns the suffix for this line, or nothing if the line is to be left out.
    std::optional<std::string> pass(Clock::time_point now) {
        if (!begin(now)) {
            count_left_out(now);
            return std::nullopt;
        }
        const uint64_t count = take_left_out();
        return count == 0 ? std::string() : " (and " + std::to_string(count) + " more times since the last such line)";
    }

  private:
    std::atomic<Clock::time_point> until_{Clock::time_point::min()};
    std::atomic<Clock::duration> length_{shortest};
    std::atomic<uint64_t> left_out_{0};
    std::atomic<Clock::time_point> last_{Clock::time_point::min()}; // time of the last event that was left out
};

} // namespace opdock::core
