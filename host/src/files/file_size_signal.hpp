// While it lives, a write of this thread beyond the process's file size limit (RLIMIT_FSIZE) fails with an error, like
// a write to a full disk: the signal that would end the process is blocked and consumed.
#pragma once

#include <csignal>
#include <ctime>

#include <pthread.h>

namespace opdock::core {

class FileSizeSignal {
  public:
    FileSizeSignal() {
        sigset_t pending{};
        (void)sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
        sigaddset(&one_, SIGXFSZ);
        is_blocked_ = pthread_sigmask(SIG_BLOCK, &one_, &before_) == 0;
    }
    ~FileSizeSignal() {
        if (!is_blocked_) {
            return;
        }
        const timespec now = {0, 0};
        if (!was_pending_) {
            while (sigtimedwait(&one_, nullptr, &now) == SIGXFSZ) {
            }
        }
        (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    FileSizeSignal(const FileSizeSignal &) = delete;
    FileSizeSignal &operator=(const FileSizeSignal &) = delete;

  private:
    sigset_t one_{}; // on Linux, zero is the empty set
    sigset_t before_{};
    bool was_pending_ = false;
    bool is_blocked_ = false;
};

} // namespace opdock::core
