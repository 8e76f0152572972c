// The state of the process that loading a plugin must not change: puts it back, with a warning.
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

// Remembers on construction the umask, the limits of resources, the calling thread's signal mask, timer slack and
// floating point environment, the locales of C and C++ and the working directory. Puts back on destruction what differs
// then, with a warning that names the plugin. Signal handlers and the environment stay as the plugin leaves them:
// others may use them by then.
class KeptProcess {
  public:
    // Both must live as long.
    KeptProcess(const Log &log, const std::string &plugin);
    ~KeptProcess();
    KeptProcess(const KeptProcess &) = delete;
    KeptProcess &operator=(const KeptProcess &) = delete;

  private:
    void put_back() const;
    enum class Limits { same, put_back, lowered }; // the last: some for good
    Limits put_back_limits() const;
    enum class Locales { same, put_back, lost }; // the last: that of C cannot be had again
    Locales put_back_locales() const;
    bool is_working_directory() const;
    // False when it cannot be entered any more.
    bool enter_working_directory() const;
    bool put_back_working_directory() const; // true when it was another one

    const Log &log_;
    const std::string &plugin_;
    mode_t umask_;
    std::array<rlimit, RLIM_NLIMITS> limits_{};
    sigset_t blocked_{};
    long timer_slack_; // of the calling thread, in nanoseconds
    std::fenv_t floating_point_{};
    std::string locale_;
    std::locale cpp_locale_; // the global one, which streams begin with
    // Code that is loaded may close the descriptor, or have it mean another folder.
    Descriptor working_directory_;
    std::string working_directory_path_; // empty when nobody knows it
    struct stat working_directory_status_ = {};
};

} // namespace opdock::core
