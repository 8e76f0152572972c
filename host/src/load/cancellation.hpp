// pthread_cancel ends a thread where it blocks, which would leave files, logs and databases incomplete. So the host
// disables cancellation while it works. Threads are cancelled only in kernels, which unwinds the kernels' frames.
#pragma once

#include <pthread.h>

namespace opdock::core {

// Disables cancellation of this thread for its lifetime. Pending requests act after the outermost, or in a Cancellable.
class Uncancellable {
  public:
    Uncancellable() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~Uncancellable() { ::pthread_setcancelstate(before_, nullptr); }
    Uncancellable(const Uncancellable &) = delete;
    Uncancellable &operator=(const Uncancellable &) = delete;

    int before() const { return before_; }

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

// During its lifetime, restores the thread's cancellation state from before `around`.
class Cancellable {
  public:
    explicit Cancellable(const Uncancellable &around) { ::pthread_setcancelstate(around.before(), nullptr); }
    ~Cancellable() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }
    Cancellable(const Cancellable &) = delete;
    Cancellable &operator=(const Cancellable &) = delete;
};

} // namespace opdock::core
