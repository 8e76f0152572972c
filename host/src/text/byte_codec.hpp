// Encodes values as bytes and decodes them, for data that only this machine reads. Decoding validates everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace opdock::core {

// The bytes end before the encoded value does.
struct ShortBytes : std::runtime_error {
    ShortBytes() : std::runtime_error("a record ends too early") {}
};

class ByteWriter {
  public:
    template<class T>
    void value(T written) {
        static_assert(std::is_arithmetic_v<T>);
        const auto *bytes = reinterpret_cast<const std::byte *>(&written);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof written);
    }
    void bytes(std::span<const std::byte> written) {
        value(static_cast<std::uint32_t>(written.size()));
        bytes_.insert(bytes_.end(), written.begin(), written.end());
    }
    void text(std::string_view written) { bytes(std::as_bytes(std::span(written))); }
    void texts(const std::vector<std::string> &written) {
        value(static_cast<std::uint32_t>(written.size()));
        for (const std::string &one : written) {
            text(one);
        }
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

// Throws ShortBytes.
class ByteReader {
  public:
    explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    bool at_end() const { return rest_.empty(); }
    std::size_t left() const { return rest_.size(); }

    std::span<const std::byte> take(std::size_t size) {
        if (size > rest_.size()) {
            throw ShortBytes();
        }
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }
    template<class T>
    T value() {
        static_assert(std::is_trivially_copyable_v<T>);
        T read;
        std::memcpy(&read, take(sizeof read).data(), sizeof read);
        return read;
    }
    std::string text_of(std::size_t size) {
        const auto bytes = take(size);
        return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    }

    // Reads what ByteWriter's functions of the same names write.
    std::span<const std::byte> bytes() { return take(value<std::uint32_t>()); }
    std::string text() { return text_of(value<std::uint32_t>()); }
    std::vector<std::string> texts() {
        const auto count = value<std::uint32_t>();
        if (count > left() / sizeof(std::uint32_t)) {
            throw ShortBytes();
        }
        std::vector<std::string> read(count);
        for (std::string &one : read) {
            one = text();
        }
        return read;
    }

  private:
    std::span<const std::byte> rest_;
};

} // namespace opdock::core
