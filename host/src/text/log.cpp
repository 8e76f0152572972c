#include "text/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>

#include <spdlog/details/log_msg.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/sink.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::array<spdlog::level::level_enum, 4> spdlog_levels = {spdlog::level::debug, spdlog::level::info,
                                                                    spdlog::level::warn, spdlog::level::err};

struct LevelName {
    const char *name;
    const char *colour; // terminal escape sequence
};
constexpr std::array<LevelName, 4> level_names = {
    {{"debug", "\x1b[36m"}, {"info", "\x1b[32m"}, {"warning", "\x1b[33m"}, {"error", "\x1b[31m"}}};

int32_t level_of(spdlog::level::level_enum level) {
    const auto *found = std::find(spdlog_levels.begin(), spdlog_levels.end(), level);
    return found == spdlog_levels.end() ? OPDOCK_LOG_ERROR : static_cast<int32_t>(found - spdlog_levels.begin());
}

// Without localtime() or gmtime(): both take a lock, which a forked child may inherit locked.
void add_time(fmt::memory_buffer &line, std::chrono::system_clock::time_point time) {
    using namespace std::chrono;
    const auto now = floor<milliseconds>(time);
    const auto today = floor<days>(now);
    const year_month_day date(today);
    const hh_mm_ss clock(now - today);
    fmt::format_to(std::back_inserter(line), "[{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}Z] ", int{date.year()},
                   unsigned{date.month()}, unsigned{date.day()}, clock.hours().count(), clock.minutes().count(),
                   clock.seconds().count(), clock.subseconds().count());
}

bool wants_colours() {
    const char *no_colour = secure_getenv("NO_COLOR");
    return no_colour == nullptr || *no_colour == '\0';
}

class LineSink final : public spdlog::sinks::sink {
  public:
    LineSink(Log::Callback callback, void *user_data) : callback_(callback), user_data_(user_data) {}

    void log(const spdlog::details::log_msg &message) override {
        const int32_t level = level_of(message.level);
        const LevelName &name = level_names.at(static_cast<size_t>(level));
        fmt::memory_buffer line;
        if (callback_ != nullptr) {
            fmt::format_to(std::back_inserter(line), "[opdock] [{}] ", name.name);
        } else {
            const bool is_coloured = wants_colours_ && isatty(STDERR_FILENO) == 1;
            add_time(line, message.time);
            fmt::format_to(std::back_inserter(line), "[opdock] [{}{}{}] [{}:{}] ", is_coloured ? name.colour : "",
                           name.name, is_coloured ? "\x1b[0m" : "", getpid(), gettid());
        }
        const size_t beginning = line.size();
        // Texts of files, plugins and the environment pass through here: they must not control the terminal.
        const std::string payload = visible({message.payload.data(), message.payload.size()});
        for (const char c : payload) {
            line.push_back(c);
            if (c == '\n' && callback_ == nullptr) { // repeat the tag, so that grep finds all lines of a message
                line.reserve(line.size() + beginning);
                line.append(line.data(), line.data() + beginning);
                fmt::format_to(std::back_inserter(line), "    "); // so that no part of a message passes for another
            }
        }
        if (callback_ != nullptr) {
            line.push_back('\0');
            callback_(user_data_, level, line.data());
            return;
        }
        line.push_back('\n');
        const char *text = line.data();
        size_t left = line.size();
        while (left > 0) {
            const ssize_t written = ::write(STDERR_FILENO, text, left);
            if (written < 0 && errno == EINTR) {
                continue;
            }
            if (written <= 0) {
                return; // the error cannot be reported
            }
            text += written;
            left -= static_cast<size_t>(written);
        }
    }
    void flush() override {}
    void set_pattern(const std::string & /*pattern*/) override {}
    void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

  private:
    Log::Callback callback_;
    void *user_data_;
    bool wants_colours_ = wants_colours();
};

} // namespace

Log::Log(Callback callback, void *user_data)
    : logger_(std::make_shared<spdlog::logger>("opdock", std::make_shared<LineSink>(callback, user_data))) {
    logger_->set_level(spdlog::level::info);
}

void Log::set_level(int32_t level) {
    logger_->set_level(spdlog_levels.at(static_cast<size_t>(level)));
}

bool Log::writes(int32_t level) const {
    return logger_->should_log(spdlog_levels.at(static_cast<size_t>(level)));
}

void Log::write(int32_t level, std::string_view message) const {
    const auto index = static_cast<size_t>(std::clamp(level, OPDOCK_LOG_DEBUG, OPDOCK_LOG_ERROR));
    logger_->log(spdlog_levels.at(index), spdlog::string_view_t(message.data(), message.size()));
}

} // namespace opdock::core
