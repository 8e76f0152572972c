// The dynamic section of an ELF file as the dynamic loader would interpret it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/elf.hpp"

namespace opdock::core {

// A version of a library's symbols: {"libc.so.6", "GLIBC_2.34"}.
struct VersionNeed {
    std::string library;
    std::string version;
};

// Libraries that the file needs, and its own name as a library.
struct LibraryNeeds {
    std::string soname;             // name by which other files request it (DT_SONAME), or ""
    std::vector<std::string> names; // names that the loader would search (DT_NEEDED and filtered libraries)
    std::optional<std::string> rpath;
    std::optional<std::string> runpath; // if present, DT_RPATH is ignored

    bool operator==(const LibraryNeeds &) const = default;
};

struct ElfDynamic {
    LibraryNeeds libraries;
    std::vector<VersionNeed> versions; // required versions; weak ones are omitted
    bool relocates_text = false;       // code is modified while it is loaded
    bool uses_static_tls = false;      // thread-local memory allocated at program start
    bool has_executable_stack = false; // makes every thread's stack executable
    bool has_writable_code = false;    // a segment is both writable and executable
    bool names_auditors = false;       // libraries that the loader runs if it starts this file as a program (DT_AUDIT)
    std::uint64_t tls_bytes = 0;
};

// Throws Rejected if the dynamic section is missing or inconsistent.
ElfDynamic read_dynamic(const ElfImage &image);

// True if the file defines a function of this name that is visible to other files.
bool exports_function(const ElfImage &image, std::string_view name);

// Symbols that other files must define; weak ones are omitted.
std::vector<std::string> undefined_symbols(const ElfImage &image);

// True if the file defines a symbol of this name, of any kind, visible to other files. Ignores its version.
bool defines_symbol(const ElfImage &image, std::string_view name);

// Defined symbols that are visible to other files, at most `most`. Reads only the newer symbol hash table
// (DT_GNU_HASH), which every current linker writes.
std::vector<std::string> defined_symbols(const ElfImage &image, std::size_t most);

// Defined symbols that the loader makes unique in the process (STB_GNU_UNIQUE), at most `most`. Looks only at the first
// few thousand symbols.
std::vector<std::string> unique_symbols(const ElfImage &image, std::size_t most);

// Versions that a library defines, such as "GLIBC_2.34".
std::vector<std::string> versions_defined(const ElfImage &image);

} // namespace opdock::core
