// Process state that loading a plugin must not change: restores it, with a warning.
#pragma once

#include <array>
#include <cfenv>
#include <csignal>
#include <locale>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "files/descriptor.hpp"
#include "text/log.hpp"

namespace opdock::core {

// On construction saves the umask, resource limits, the calling thread's signal mask, timer slack and floating-point
// environment, the C and C++ locales and the working directory. On destruction restores what has changed, with a
// warning that names the plugin. Signal handlers and the environment stay as the plugin left them, because others may
// use them by then.
class KeptProcess {
  public:
    // Both must outlive this.
    KeptProcess(const Log &log, const std::string &plugin);
    ~KeptProcess();
    KeptProcess(const KeptProcess &) = delete;
    KeptProcess &operator=(const KeptProcess &) = delete;

  private:
    void put_back() const;
    enum class Limits { same, put_back, lowered }; // lowered: some permanently
    Limits put_back_limits() const;
    enum class Locales { same, put_back, lost }; // lost: the C locale cannot be restored
    Locales put_back_locales() const;
    bool is_working_directory() const;
    // False if it is no longer accessible.
    bool enter_working_directory() const;
    bool put_back_working_directory() const; // true if it had changed

    const Log &log_;
    const std::string &plugin_;
    mode_t umask_;
    std::array<rlimit, RLIM_NLIMITS> limits_{};
    sigset_t blocked_{};
    long timer_slack_; // of the calling thread, in nanoseconds
    std::fenv_t floating_point_{};
    std::string locale_;
    std::locale cpp_locale_; // the global locale, the default of streams
    // Loaded code may close the descriptor, or reuse its number for another folder.
    Descriptor working_directory_;
    std::string working_directory_path_; // empty if unknown
    struct stat working_directory_status_ = {};
};

} // namespace opdock::core
