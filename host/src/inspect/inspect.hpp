// Judges a file before any of its code runs: is it a whole ELF shared object for this machine, does its note say that
// it is a plugin this host can take, does it export the entry, and would the dynamic loader take it as far as can be
// told from outside? Only the loader finds missing libraries and symbols.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/file_identity.hpp"
#include "files/held_directory.hpp"
#include "files/reject.hpp"
#include "inspect/elf_dynamic.hpp"
#include "inspect/library_versions.hpp"
#include "inspect/note.hpp"

namespace opdock::core {

struct Inspection {
    FileIdentity identity; // of what was read
    // Set when the note could be read, also of a plugin that this machine cannot run.
    std::optional<Note> note;
    // Hexadecimal; empty when the linker left none.
    std::string build_id;
    std::optional<Rejection> rejection;
    // What a careful operator does not want in a process, and strict mode refuses: writable code, an executable stack,
    // text relocations. One message each.
    std::vector<std::string> weaknesses;
    // For a person to know; strict mode takes the plugin all the same.
    std::vector<std::string> remarks;
    LibraryNeeds libraries;
    // Libraries that the dynamic loader would run if it were started with this file as its program (DT_AUDIT).
    bool names_auditors = false;
};

Inspection inspect(const std::filesystem::path &path, LibraryVersions &versions);
Inspection inspect(const HeldDirectory &directory, const std::string &name, LibraryVersions &versions);

} // namespace opdock::core
