// A value that is made when it is first asked for. Unlike a local static, it has no lock that a forked child could
// inherit from a thread that was making it, and then wait for without end.
#pragma once

#include <atomic>
#include <memory>

namespace opdock::core {

// For constinit variables; the value lives as long as the process.
template<class T>
class ForkSafeOnce {
  public:
    // Several threads may make it at once; one of theirs stays. What `make` throws is thrown, and the next call tries
    // again.
    template<class Make>
    const T &get(Make make) {
        const T *value = value_.load(std::memory_order_acquire);
        if (value == nullptr) {
            auto made = std::make_unique<const T>(make());
            if (value_.compare_exchange_strong(value, made.get(), std::memory_order_acq_rel)) {
                value = made.release();
            }
        }
        return *value;
    }

  private:
    std::atomic<const T *> value_{nullptr};
};

} // namespace opdock::core
