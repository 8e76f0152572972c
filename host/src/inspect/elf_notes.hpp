// The notes of an ELF file.
#pragma once

#include <string>
#include <vector>

#include "inspect/elf.hpp"

namespace opdock::core {

struct ElfNotes {
    // Payloads of opdock's notes, without the NULs at their ends. A plugin has exactly one.
    std::vector<std::string> opdock;
    // Hexadecimal; empty when there is none.
    std::string build_id;
};

// Throws Rejected when they contradict themselves.
ElfNotes read_notes(const ElfImage &image);

} // namespace opdock::core
