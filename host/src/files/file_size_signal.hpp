// While this lives, a file of the thread that grows past the limit of the process (RLIMIT_FSIZE) is an error of the
// write, as one on a full disk is: the signal that would end the process is held back and taken.
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
    sigset_t one_{}; // none so far: Linux has a bit for each
    sigset_t before_{};
    bool was_pending_ = false;
    bool is_blocked_ = false;
};

} // namespace opdock::core
