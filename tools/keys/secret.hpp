// Bytes that must stay secret: kept out of swap, and wiped on destruction.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include <sodium.h>

namespace opdock::keys {

class Secret {
  public:
    // Call prepare_sodium first.
    explicit Secret(std::size_t size)
        : bytes_(static_cast<unsigned char *>(sodium_malloc(size)), sodium_free), size_(size) {
        if (bytes_ == nullptr) {
            throw std::bad_alloc();
        }
    }

    unsigned char *data() { return bytes_.get(); }
    const unsigned char *data() const { return bytes_.get(); }
    const char *text() const { return reinterpret_cast<const char *>(bytes_.get()); }
    std::size_t size() const { return size_; }
    // Drops the bytes after the first `size`.
    void shorten(std::size_t size) { size_ = size; }

  private:
    std::unique_ptr<unsigned char, void (*)(void *)> bytes_;
    std::size_t size_;
};

} // namespace opdock::keys
