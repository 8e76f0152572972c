// An ELF shared object as described by its headers. All numbers in it are untrusted until checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <elf.h>

#include "files/plugin_file.hpp"

namespace opdock::core {

class ElfImage {
  public:
    // Throws Rejected unless the file is a complete shared object for this machine. Keeps a reference.
    explicit ElfImage(const PluginFile &file);

    const PluginFile &file() const { return file_; }
    // All within the file's bounds.
    const std::vector<Elf64_Phdr> &segments() const { return segments_; }

    // Fills all of `bytes` from the file's content for an address. Throws Rejected if no segment contains the range.
    void read(std::uint64_t address, std::span<std::byte> bytes) const;
    template<class T>
    T read(std::uint64_t address) const {
        T value;
        read(address, std::as_writable_bytes(std::span(&value, 1)));
        return value;
    }

    // Throws Rejected: "'libacme.so' is not a sound ELF file: {what}."
    [[noreturn]] void reject(const std::string &what) const;

  private:
    const PluginFile &file_;
    std::vector<Elf64_Phdr> segments_;
};

} // namespace opdock::core
