// Progress of a tool that measures shapes: a bar on a terminal; elsewhere a line for each shape, and one before it if
// the shape takes long.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace opdock::cli {

struct Step {
    uint64_t done = 0; // of this shape
    uint64_t total = 1;
    double seconds = 0;
    double budget = 0;
};

// "[#####.....]  2 of 3  rmsnorm_fwd  45 %  12 s left", at most `width` columns. `index` is that of the shape, from 0;
// each of the shapes after it is expected to take `each` seconds.
std::string bar_text(const Step &step, size_t index, size_t count, const std::string &label, double each, size_t width);

class Progress {
  public:
    using Write = std::function<void(const std::string &)>;

    // `width`: that of the terminal, or 0 to write lines.
    Progress(size_t count, size_t width, Write write) : count_(count), width_(width), write_(std::move(write)) {}

    void begin(const std::string &label);
    void step(const Step &step);
    // The user requested a stop; `text`, which is written once, says what happens until then.
    void stopping(const std::string &text);
    // Ends the current shape, with its result.
    void end(const std::string &text);

  private:
    size_t count_;
    size_t width_;
    Write write_;
    size_t index_ = 0;
    std::string label_;
    bool is_announced_ = false;
    bool is_stopping_ = false;
    double last_ = -1;   // time of the last drawing of the bar
    double took_ = 0;    // time of the previous shapes
    double seconds_ = 0; // time of this shape
};

// Width in columns; 0 if stderr is no terminal.
size_t width_of_stderr();

// Writes to stderr; a bar if stderr is a terminal.
Progress progress_on_stderr(size_t count);

} // namespace opdock::cli
