// pthread_cancel ends a thread where it blocks, which would leave files, logs and databases half done. So cancellation
// is held back while the host works. It happens in kernels only, and unwinds their frames.
#pragma once

#include <pthread.h>

namespace opdock::core {

// As long as it lives, this thread is not cancelled. It is when the last one goes, or at a Cancellable.
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

// As long as it lives, this thread is cancelled as it would be without `around`.
class Cancellable {
  public:
    explicit Cancellable(const Uncancellable &around) { ::pthread_setcancelstate(around.before(), nullptr); }
    ~Cancellable() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }
    Cancellable(const Cancellable &) = delete;
    Cancellable &operator=(const Cancellable &) = delete;
};

} // namespace opdock::core
