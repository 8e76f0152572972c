// The notes of an ELF file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/elf.hpp"

namespace opdock::core {

struct ElfNotes {
    // Payloads of opdock's notes, without trailing NULs. A plugin has exactly one.
    std::vector<std::string> opdock;
    // Hexadecimal; empty if there is none.
    std::string build_id;
};

// Throws Rejected if the notes are inconsistent.
ElfNotes read_notes(const ElfImage &image);

// "build 1a2b", or "a build without id".
std::string build_text(const std::string &build_id);

// The build id of the file at this path; empty if it has none, is not a library, or cannot be read.
std::string read_build_id(const std::filesystem::path &path);

// The build id among the notes of a segment, in hexadecimal; empty if there is none. `alignment`: the segment's.
std::string find_build_id(std::string_view segment, std::size_t alignment);

} // namespace opdock::core
