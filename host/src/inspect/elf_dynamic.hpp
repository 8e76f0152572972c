// What the dynamic loader would do with an ELF file, without it.
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

// The file tells the loader which libraries it needs, and what it is itself as a library.
struct LibraryNeeds {
    std::string soname;             // by which other files may ask for this one (DT_SONAME), or ""
    std::vector<std::string> names; // as the loader would search them (DT_NEEDED and those that it filters)
    std::optional<std::string> rpath;
    std::optional<std::string> runpath; // with one, DT_RPATH counts for nothing

    bool operator==(const LibraryNeeds &) const = default;
};

struct ElfDynamic {
    LibraryNeeds libraries;
    std::vector<VersionNeed> versions; // that must exist; weak ones are left out
    bool relocates_text = false;       // code is written to while it is loaded
    bool uses_static_tls = false;      // thread-local memory that exists from the program's start
    bool has_executable_stack = false; // makes every thread's stack executable
    bool has_writable_code = false;    // a segment may be written and executed
    bool names_auditors = false;       // libraries that the loader runs when this is the program it starts (DT_AUDIT)
    std::uint64_t tls_bytes = 0;
};

// Throws Rejected when the dynamic section is missing or contradicts itself.
ElfDynamic read_dynamic(const ElfImage &image);

// Whether the file defines a function of this name that other files see.
bool exports_function(const ElfImage &image, std::string_view name);

// What the file uses and other files must define; weak ones are left out.
std::vector<std::string> undefined_symbols(const ElfImage &image);

// Whether the file defines a symbol of this name, of any kind, that other files see. Its version is not looked at.
bool defines_symbol(const ElfImage &image, std::string_view name);

// What the file defines and other files see, at most `most` of them; the newer table of symbols (DT_GNU_HASH) only,
// which every linker of today writes.
std::vector<std::string> defined_symbols(const ElfImage &image, std::size_t most);

// Those of the first thousands that it defines which the loader makes one for the whole process (STB_GNU_UNIQUE), at
// most `most`.
std::vector<std::string> unique_symbols(const ElfImage &image, std::size_t most);

// "GLIBC_2.34" and so on, of a library.
std::vector<std::string> versions_defined(const ElfImage &image);

} // namespace opdock::core
