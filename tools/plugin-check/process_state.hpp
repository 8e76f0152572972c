// State shared by all code of a process, which a kernel must leave as it was.
#pragma once

#include <cfenv>
#include <csignal>
#include <locale>
#include <string>

namespace opdock::plugin_check {

// The state of this thread, where it is per thread: the rounding of floating-point numbers, and the blocked signals.
class ProcessState {
  public:
    ProcessState();

    // Returns what has changed, "the rounding mode, the locale", or "", and restores it.
    std::string restore() const;

  private:
    std::fenv_t floating_{};
    sigset_t signals_{};
    std::string locale_;
    std::locale cpp_locale_;
    std::string folder_;
};

} // namespace opdock::plugin_check
