// SHA-256 of files and texts, and how bytes are spelled in signatures, keys and policies: lower-case hexadecimal only,
// so that one value has one spelling.
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

// Throws Rejected when the file cannot be read, or was changed meanwhile.
Digest sha256_of(const PluginFile &file);

std::string hex(std::span<const unsigned char> bytes);

// Fills all of `bytes`; false when the text has another length or other characters.
bool parse_hex(std::string_view text, std::span<unsigned char> bytes);

// To be called before anything else of libsodium. Throws Error(OPDOCK_FAILED).
void prepare_sodium();

} // namespace opdock::core
