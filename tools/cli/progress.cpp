#include "cli/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/printable.hpp"

namespace opdock::cli {
namespace {

constexpr double seconds_between_bars = 0.1;
constexpr double seconds_before_announcement = 2;

std::string time_text(double seconds) {
    const auto whole = static_cast<long>(std::ceil(seconds));
    return whole <= 120 ? std::to_string(whole) + " s left" : std::to_string((whole + 59) / 60) + " min left";
}

std::string place_text(size_t index, size_t count) {
    return std::to_string(index + 1) + " of " + std::to_string(count);
}

} // namespace

std::string bar_text(const Step &step, size_t index, size_t count, const std::string &label, double each,
                     size_t width) {
    const double of_steps = static_cast<double>(step.done) / static_cast<double>(std::max<uint64_t>(step.total, 1));
    const double of_time = step.budget > 0 ? step.seconds / step.budget : 0;
    const double fraction = std::clamp(std::max(of_steps, of_time), 0.0, 1.0); // by the limit that is reached first
    const double left = fraction > 0 ? step.seconds * (1 - fraction) / fraction : step.budget;
    const double all = left + each * static_cast<double>(count - index - 1);
    const size_t cells = width < 60 ? 8 : 20; // a narrow line keeps its room for the time
    const double whole = (static_cast<double>(index) + fraction) / static_cast<double>(count);
    const auto full = static_cast<size_t>(whole * static_cast<double>(cells));
    const std::string number = std::to_string(static_cast<int>(100 * whole));
    const std::string percent = std::string(3 - std::min<size_t>(number.size(), 3), ' ') + number + " %";
    std::string text = "[" + std::string(full, '#') + std::string(cells - full, '.') + "]  " +
                       place_text(index, count) + "  " + percent + "  " + time_text(all) + "  " + label;
    return text.substr(0, width);
}

void Progress::begin(const std::string &label) {
    label_ = printable(label);
    is_announced_ = false;
    last_ = -1;
    seconds_ = 0;
}

void Progress::step(const Step &step) {
    seconds_ = step.seconds;
    if (width_ == 0) {
        if (!is_announced_ && step.seconds > seconds_before_announcement) {
            write_(place_text(index_, count_) + ": " + label_ + "\n");
        }
        is_announced_ = is_announced_ || step.seconds > seconds_before_announcement;
        return;
    }
    if (last_ >= 0 && step.seconds - last_ < seconds_between_bars) {
        return;
    }
    last_ = step.seconds;
    const double each = index_ == 0 ? step.budget : took_ / static_cast<double>(index_);
    write_("\r" + bar_text(step, index_, count_, label_, each, width_ - 1) + "\x1b[K");
}

void Progress::stopping(const std::string &text) {
    if (!is_stopping_) {
        write_((width_ == 0 ? "" : "\r\x1b[K") + text + "\n");
    }
    is_stopping_ = true;
}

void Progress::end(const std::string &text) {
    const std::string line = place_text(index_, count_) + ": " + label_ + ": " + printable(text) + "\n";
    if (width_ == 0) {
        write_(line);
    } else if (index_ + 1 == count_ || last_ >= 0) {
        write_("\r\x1b[K");
    }
    took_ += seconds_;
    ++index_;
}

size_t width_of_stderr() {
    constexpr size_t usual = 80;
    constexpr size_t narrowest = 20;
    if (isatty(STDERR_FILENO) != 1) {
        return 0;
    }
    winsize size{};
    const size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : usual;
    return std::max(width, narrowest);
}

Progress progress_on_stderr(size_t count) {
    return {count, width_of_stderr(), [](const std::string &text) { std::cerr << text << std::flush; }};
}

} // namespace opdock::cli
