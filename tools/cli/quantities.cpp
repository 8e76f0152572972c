#include "cli/quantities.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "text/spelling.hpp"

namespace opdock::cli {

std::string counted(uint64_t count, std::string_view one, std::string_view several) {
    return core::counted(count, one, several);
}

std::string short_number(double value) {
    char text[32];
    (void)std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.3g", value);
    return text;
}

std::string time_text(double microseconds) {
    if (microseconds < 0.9995) {
        return short_number(1000 * microseconds) + " ns";
    }
    if (microseconds < 999.5) {
        return short_number(microseconds) + " us";
    }
    return microseconds < 999.5e3 ? short_number(microseconds / 1e3) + " ms" : short_number(microseconds / 1e6) + " s";
}

std::string rate_text(double per_second, const std::string &unit) {
    if (!std::isfinite(per_second)) { // too short for the resolution of a device's events
        return "an unknown rate";
    }
    constexpr std::array<const char *, 6> prefixes = {"", "k", "M", "G", "T", "P"};
    size_t step = 0;
    while (per_second >= 999.5 && step + 1 < prefixes.size()) {
        per_second /= 1000;
        ++step;
    }
    return short_number(per_second) + " " + prefixes[step] + unit;
}

std::string percent_text(double fraction) {
    return short_number(100 * fraction) + " %";
}

std::string speed_text(double ratio) {
    const bool is_faster = ratio >= 1;
    const double times = is_faster ? ratio : 1 / ratio;
    char text[48];
    (void)std::snprintf(text, sizeof text,
                        times < 9.995   ? "%.2fx %s"
                        : times < 99.95 ? "%.1fx %s"
                                        : "%.0fx %s",
                        times, is_faster ? "faster" : "slower");
    return times < 1.005 ? "as fast" : text;
}

} // namespace opdock::cli
