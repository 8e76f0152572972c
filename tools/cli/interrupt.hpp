// Ctrl-C and SIGTERM, asked about instead of ending the program: what was measured is kept and shown.
#pragma once

namespace opdock::cli {

// While there is one, the first signal is only remembered; a second one of the same kind ends the program.
class Interrupts {
  public:
    Interrupts();
    ~Interrupts();
    Interrupts(const Interrupts &) = delete;
    Interrupts &operator=(const Interrupts &) = delete;

    // The signal that came, or 0.
    int signal() const;
};

} // namespace opdock::cli
