// An ELF shared object as far as its headers tell. Every number in it is hostile until checked.
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
    // Throws Rejected unless the file is a whole shared object for this machine. Keeps a reference.
    explicit ElfImage(const PluginFile &file);

    const PluginFile &file() const { return file_; }
    // All within the file.
    const std::vector<Elf64_Phdr> &segments() const { return segments_; }

    // Fills all of `bytes` with what the file puts at an address. Throws Rejected when no segment holds that.
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
