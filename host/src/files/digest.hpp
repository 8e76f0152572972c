// SHA-256 of files and texts, and the spelling of bytes in signatures, keys and policies: lower-case hexadecimal only,
// so that each value has one spelling.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/plugin_file.hpp"

namespace opdock::core {

using Digest = std::array<unsigned char, 32>;

Digest sha256_of(std::string_view text);

// Throws Rejected if the file cannot be read, or was changed meanwhile.
Digest sha256_of(const PluginFile &file);

std::string hex(std::span<const unsigned char> bytes);

// Fills all of `bytes`; false if the text has another length or other characters.
bool parse_hex(std::string_view text, std::span<unsigned char> bytes);

// Call before any other libsodium function. Throws Error(OPDOCK_FAILED).
void prepare_sodium();

} // namespace opdock::core
