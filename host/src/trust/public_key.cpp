#include "trust/public_key.hpp"

#include <algorithm>

#include "files/bounded_file.hpp"
#include "files/digest.hpp"
#include "files/keyed_lines.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr const char *key_schema = "opdock.public-key/1";

}

bool is_key_name(std::string_view name) {
    const auto is_known = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._@+-").find(c) != std::string_view::npos;
    };
    return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), is_known);
}

std::string PublicKey::id() const {
    const std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return hex(sha256_of(text)).substr(0, 16);
}

std::string PublicKey::text() const {
    return "key " + quote(name) + " (" + id() + ")";
}

PublicKey parse_public_key(std::string_view text, const std::string &path) {
    if (text.starts_with("opdock.secret-key/")) {
        throw Error(OPDOCK_LOAD_FAILED,
                    path +
                        ": this is a secret key; expected the public key that belongs to it: NAME.pub beside NAME.key");
    }
    KeyedLines lines(text, path);
    PublicKey key;
    (void)lines.at_end();
    lines.expect_line(key_schema);
    key.name = lines.value_of("name", "(a name)");
    if (!is_key_name(key.name)) {
        lines.fail("expected a name of at most 64 letters, digits and ._@+-, found " + quote(key.name));
    }
    lines.hex_of("key", key.bytes);
    if (!lines.at_end()) {
        lines.fail("expected nothing after the key; put further keys into files of their own");
    }
    return key;
}

PublicKey read_public_key(const std::string &path) {
    return parse_public_key(read_bounded_file(path, OPDOCK_LOAD_FAILED, most_key_bytes), path);
}

std::string print(const PublicKey &key) {
    return std::string(key_schema) + "\nname " + key.name + "\nkey " + hex(key.bytes) + "\n";
}

} // namespace opdock::core
