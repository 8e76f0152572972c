// Judges a file before any of its code runs: is it a complete ELF shared object for this machine, does its note
// describe a plugin that this host accepts, does it export the entry, and would the dynamic loader accept it, as far as
// can be determined from outside? Only the loader itself detects missing libraries and symbols.
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
    FileIdentity identity; // of the file that was read
    // Set if the note could be read, even if this machine cannot run the plugin.
    std::optional<Note> note;
    // Hexadecimal; empty if the linker wrote none.
    std::string build_id;
    std::optional<Rejection> rejection;
    // Properties that a careful operator does not want in a process, and strict mode rejects: writable code, an
    // executable stack, text relocations. One message each.
    std::vector<std::string> weaknesses;
    // Information for people; strict mode accepts the plugin nevertheless.
    std::vector<std::string> remarks;
    LibraryNeeds libraries;
    // Names libraries that the dynamic loader would run if it started this file as a program (DT_AUDIT).
    bool names_auditors = false;
};

Inspection inspect(const std::filesystem::path &path, LibraryVersions &versions);
Inspection inspect(const HeldDirectory &directory, const std::string &name, LibraryVersions &versions);

} // namespace opdock::core
