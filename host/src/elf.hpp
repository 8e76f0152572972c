// Reads what opdock needs from an ELF file: that it is whole and for this machine, and its notes.
//
// The file is read with pread through one descriptor and never mapped, so that a file that shrinks meanwhile is an
// error and not a SIGBUS. Every number in it is hostile until checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace opdock::core {

// A regular file, open for reading. Throws Rejected when it is none or cannot be read.
class PluginFile {
  public:
    explicit PluginFile(const std::filesystem::path &path);
    ~PluginFile();
    PluginFile(const PluginFile &) = delete;
    PluginFile &operator=(const PluginFile &) = delete;

    // Without its folders, as messages name it.
    const std::string &name() const { return name_; }
    std::uint64_t size() const { return size_; }

    // Fills all of `bytes`.
    void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  private:
    std::string name_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
};

struct ElfNotes {
    // Payloads of opdock's notes, without the NULs at their ends. A plugin has exactly one.
    std::vector<std::string> opdock;
    // Hexadecimal; empty when there is none.
    std::string build_id;
};

// Throws Rejected unless the file is a whole shared object for this machine.
ElfNotes read_elf_notes(const PluginFile &file);

} // namespace opdock::core
