// Text for counts, times, rates and ratios, the same in all tools.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opdock::cli {

// "1 config", "2 configs"; `several` is the plural, by default `one` with an s.
std::string counted(uint64_t count, std::string_view one, std::string_view several = {});

// Three significant digits: more would differ from one measurement to the next.
std::string short_number(double value);

// "50 ns", "12.5 us", "3.1 ms", "4 s"
std::string time_text(double microseconds);

// "4.25 TB/s" for `unit` "B/s".
std::string rate_text(double per_second, const std::string &unit);

// "83 %"
std::string percent_text(double fraction);

// "1.25x faster", "10.0x slower", "as fast". `ratio`: the other implementation's time divided by this one's.
std::string speed_text(double ratio);

} // namespace opdock::cli
