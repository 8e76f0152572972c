// pthread_cancel ends a thread where it waits: files, logs and databases would be left half done. So it waits while the
// host works, and happens in kernels only, whose frames it unwinds.
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
