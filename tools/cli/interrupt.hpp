// Ctrl-C and SIGTERM as a flag to poll, without the end of the program: measurements so far are kept and shown.
#pragma once

#include <csignal>

namespace opdock::cli {

// While an object of this class exists, the first signal is only recorded; a second one of that kind ends the program.
// A signal that the program was started to ignore (nohup, background jobs) stays ignored. At most one object at a time.
class Interrupts {
  public:
    Interrupts();
    ~Interrupts();
    Interrupts(const Interrupts &) = delete;
    Interrupts &operator=(const Interrupts &) = delete;

    // The signal that was received, or 0.
    int signal() const;

  private:
    struct sigaction interrupt_before_ = {};
    struct sigaction terminate_before_ = {};
};

} // namespace opdock::cli
