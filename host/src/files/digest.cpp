#include "files/digest.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <sodium.h>

#include "files/reject.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

constexpr std::size_t piece = std::size_t{256} * 1024;

const unsigned char *bytes_of(const void *data) {
    return static_cast<const unsigned char *>(data);
}

int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

} // namespace

void prepare_sodium() {
    static const bool ready = sodium_init() >= 0;
    if (!ready) {
        throw Error(OPDOCK_FAILED, "libsodium cannot be used: it found no source of random numbers");
    }
}

Digest sha256_of(std::string_view text) {
    prepare_sodium();
    Digest digest{};
    crypto_hash_sha256(digest.data(), bytes_of(text.data()), text.size());
    return digest;
}

Digest sha256_of(const PluginFile &file) {
    prepare_sodium();
    if (file.size() == 0) { // many files of /proc report 0 whatever they contain
        throw Rejected(RejectCode::truncated,
                       fmt::format("'{}' is empty, or has no size.\nSpecify a plugin.", file.name()));
    }
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    std::vector<std::byte> buffer(std::min<std::uint64_t>(piece, file.size()));
    for (std::uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
        buffer.resize(std::min<std::uint64_t>(buffer.size(), file.size() - offset));
        file.read(offset, buffer);
        crypto_hash_sha256_update(&state, bytes_of(buffer.data()), buffer.size());
    }
    if (file.is_changed()) {
        throw Rejected(RejectCode::file_changed, changed_since_judged(file.name()).message);
    }
    Digest digest{};
    crypto_hash_sha256_final(&state, digest.data());
    return digest;
}

std::string hex(std::span<const unsigned char> bytes) {
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const unsigned char byte : bytes) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

bool parse_hex(std::string_view text, std::span<unsigned char> bytes) {
    if (text.size() != bytes.size() * 2) {
        return false;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const int high = digit(text[2 * i]);
        const int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = static_cast<unsigned char>(high * 16 + low);
    }
    return true;
}

} // namespace opdock::core
