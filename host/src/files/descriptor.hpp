// A file descriptor that closes itself.
#pragma once

#include <utility>

#include <unistd.h>

namespace opdock::core {

class Descriptor {
  public:
    // Negative: no descriptor.
    explicit Descriptor(int value = -1) : value_(value) {}
    ~Descriptor() { close(); }
    Descriptor(Descriptor &&other) noexcept : value_(std::exchange(other.value_, -1)) {}
    Descriptor &operator=(Descriptor &&other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;

    int get() const { return value_; }
    void close() {
        if (value_ >= 0) {
            ::close(std::exchange(value_, -1));
        }
    }

  private:
    int value_;
};

} // namespace opdock::core
