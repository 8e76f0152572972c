// How far a tool is that measures shapes: a bar on a terminal; elsewhere a line for each shape, and one before it when
// it takes long.
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

// "[#####.....]  2 of 3  rmsnorm_fwd  45 %  12 s left", at most `width` columns. `index` is the shape's, from 0; those
// that come after it are expected to take `each` seconds.
std::string bar_text(const Step &step, size_t index, size_t count, const std::string &label, double each, size_t width);

class Progress {
  public:
    using Write = std::function<void(const std::string &)>;

    // `width` of the terminal, or 0 for lines.
    Progress(size_t count, size_t width, Write write) : count_(count), width_(width), write_(std::move(write)) {}

    void begin(const std::string &label);
    void step(const Step &step);
    // The user asked for an end; `text`, which is written once, says what happens until then.
    void stopping(const std::string &text);
    // What came of it.
    void end(const std::string &text);

  private:
    size_t count_;
    size_t width_;
    Write write_;
    size_t index_ = 0;
    std::string label_;
    bool is_announced_ = false;
    bool is_stopping_ = false;
    double last_ = -1;   // when the bar was drawn
    double took_ = 0;    // the shapes before this one
    double seconds_ = 0; // this one
};

// In columns; 0 where stderr is no terminal.
size_t width_of_stderr();

// To stderr; a bar when that is a terminal.
Progress progress_on_stderr(size_t count);

} // namespace opdock::cli
