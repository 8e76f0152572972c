// A value created on first use. Unlike a local static, it has no lock that a forked child could inherit from a thread
// that was creating the value, and then wait for forever.
#pragma once

#include <atomic>
#include <memory>

namespace opdock::core {

// For constinit variables; the value lives as long as the process.
template<class T>
class ForkSafeOnce {
  public:
    // Several threads may create the value at once; one result is kept. If `make` throws, the exception is passed on,
    // and the next call tries again.
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
