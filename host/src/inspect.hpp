// Judges a file before any of its code runs: is it a whole ELF shared object for this machine, and does its note say
// that it is a plugin this host can take?
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "note.hpp"
#include "reject.hpp"

namespace opdock::core {

struct Inspection {
    // Set when the note could be read, also of a plugin that this machine cannot run.
    std::optional<Note> note;
    // Hexadecimal; empty when the linker left none.
    std::string build_id;
    std::optional<Rejection> rejection;
};

Inspection inspect(const std::filesystem::path &path);

} // namespace opdock::core
