// What a tool is doing, on one line of stderr that goes when it is done; nothing where stderr is no terminal.
#pragma once

#include <functional>
#include <string>

namespace opdock::cli {

class StatusLine {
  public:
    using Write = std::function<void(const std::string &)>;

    // On stderr.
    StatusLine();
    // `width` of the terminal; 0: there is none.
    StatusLine(size_t width, Write write) : width_(width), write_(std::move(write)) {}
    ~StatusLine() { clear(); }
    StatusLine(const StatusLine &) = delete;
    StatusLine &operator=(const StatusLine &) = delete;

    // In the place of what was shown before.
    void show(const std::string &text);
    void clear();

  private:
    size_t width_;
    Write write_;
    bool is_shown_ = false;
};

} // namespace opdock::cli
