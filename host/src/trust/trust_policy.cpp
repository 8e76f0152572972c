#include "trust/trust_policy.hpp"

#include <array>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::array<std::string_view, 3> names = {"off", "warn", "require"}; // in the order of enum Trust

}

std::string_view trust_name(Trust trust) {
    return names.at(static_cast<std::size_t>(trust));
}

Trust parse_trust(std::string_view value, const Place &place) {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (same_name(trimmed(value), names.at(i))) {
            return static_cast<Trust>(i);
        }
    }
    reject(place, 0, "expected " + one_of(names) + ", found " + quote(value) + did_you_mean(trimmed(value), names));
}

std::string parse_sha256(std::string_view value, const Place &place) {
    std::string digest = folded(value);
    const std::size_t bad = digest.find_first_not_of("0123456789abcdef");
    if (bad != std::string::npos || digest.size() != 64) {
        reject(place, bad == std::string::npos ? 0 : bad,
               "expected the SHA-256 of a library (64 hexadecimal digits, from `plugin-sign digest`), found " +
                   quote(value));
    }
    return digest;
}

} // namespace opdock::core
