#include "text/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>

#include <spdlog/details/log_msg.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/sink.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::array<spdlog::level::level_enum, 4> spdlog_levels = {spdlog::level::debug, spdlog::level::info,
                                                                    spdlog::level::warn, spdlog::level::err};
constexpr std::array<const char *, 4> level_names = {"DEBUG", "INFO", "WARNING", "ERROR"};

int32_t level_of(spdlog::level::level_enum level) {
    const auto *found = std::find(spdlog_levels.begin(), spdlog_levels.end(), level);
    return found == spdlog_levels.end() ? OPDOCK_LOG_ERROR : static_cast<int32_t>(found - spdlog_levels.begin());
}

class LineSink final : public spdlog::sinks::sink {
  public:
    LineSink(Log::Callback callback, void *user_data) : callback_(callback), user_data_(user_data) {}

    void log(const spdlog::details::log_msg &message) override {
        const int32_t level = level_of(message.level);
        const std::string_view file = message.source.filename;
        fmt::memory_buffer line;
        fmt::format_to(std::back_inserter(line), "[opdock {}:{} {}] ",
                       file.substr(file.find_last_of('/') + 1), // npos + 1 is 0
                       message.source.line, level_names.at(static_cast<size_t>(level)));
        const size_t beginning = line.size();
        // What files, plugins and the environment say comes by here: none of it is for a terminal to act on.
        const std::string payload = visible({message.payload.data(), message.payload.size()});
        for (const char c : payload) {
            line.push_back(c);
            if (c == '\n' && callback_ == nullptr) { // whoever greps for a line of ours finds all of it
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
            if (written <= 0) {
                return; // nobody to tell
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

void Log::write(int32_t level, std::string_view message, const char *file, int line) const {
    const auto index = static_cast<size_t>(std::clamp(level, OPDOCK_LOG_DEBUG, OPDOCK_LOG_ERROR));
    logger_->log(spdlog::source_loc{file, line, ""}, spdlog_levels.at(index),
                 spdlog::string_view_t(message.data(), message.size()));
}

} // namespace opdock::core
