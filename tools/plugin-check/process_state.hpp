// What all code of a process shares, and what a kernel has to leave as it was.
#pragma once

#include <cfenv>
#include <csignal>
#include <locale>
#include <string>

namespace opdock::plugin_check {

// Of this thread where it is a thread's: how floating-point numbers are rounded, and the blocked signals.
class ProcessState {
  public:
    ProcessState();

    // What is not as it was, "the rounding mode, the locale"; "" when nothing is. Puts it back.
    std::string restore() const;

  private:
    std::fenv_t floating_{};
    sigset_t signals_{};
    std::string locale_;
    std::locale cpp_locale_;
    std::string folder_;
};

} // namespace opdock::plugin_check
