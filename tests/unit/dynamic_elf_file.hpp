// Shared objects that no linker writes: their dynamic section is made up by a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elf_file.hpp"

namespace opdock::test {

// Its layout in memory and in the file is the same: the dynamic section, followed by the tables that it points to.
class DynamicElfFile {
  public:
    // Address of `tables` if the dynamic section has that many entries, the last of which is DT_NULL.
    static std::uint64_t address_of_tables(std::size_t n_entries) {
        return sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr) + n_entries * sizeof(Elf64_Dyn);
    }

    DynamicElfFile(const std::vector<Elf64_Dyn> &entries, const std::string &tables) {
        Elf64_Ehdr header = ElfFile("").header;
        header.e_phnum = 2;
        Elf64_Phdr whole{};
        whole.p_type = PT_LOAD;
        whole.p_flags = PF_R;
        whole.p_filesz = whole.p_memsz = address_of_tables(entries.size()) + tables.size();
        Elf64_Phdr dynamic{};
        dynamic.p_type = PT_DYNAMIC;
        dynamic.p_offset = dynamic.p_vaddr = address_of_tables(0);
        dynamic.p_filesz = dynamic.p_memsz = entries.size() * sizeof(Elf64_Dyn);
        add(header);
        add(whole);
        add(dynamic);
        for (const Elf64_Dyn &entry : entries) {
            add(entry);
        }
        bytes_ += tables;
    }

    const std::string &bytes() const { return bytes_; }

  private:
    template<class Struct>
    void add(const Struct &value) {
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
    }

    std::string bytes_;
};

// A file that needs that many libraries, each with that many versions. All versions share one entry, so that a small
// file can claim to need many.
inline std::string file_needing_versions(std::size_t libraries, std::uint16_t versions, std::uint16_t flags) {
    constexpr std::size_t n_entries = 5;
    const std::uint64_t strings_at = DynamicElfFile::address_of_tables(n_entries);
    std::string tables("\0libc.so.6\0GLIBC_2.2.5\0", 23);
    const std::size_t strings = tables.size();
    const auto add = [&tables](const auto &value) {
        tables.append(reinterpret_cast<const char *>(&value), sizeof value);
    };
    for (std::size_t i = 0; i < libraries; ++i) {
        const auto to_version = static_cast<Elf64_Word>((libraries - i) * sizeof(Elf64_Verneed));
        add(Elf64_Verneed{VER_NEED_CURRENT, versions, 1, to_version, sizeof(Elf64_Verneed)});
    }
    add(Elf64_Vernaux{0, flags, 2, 11, 0});
    return DynamicElfFile({{DT_STRTAB, {strings_at}},
                           {DT_STRSZ, {strings}},
                           {DT_VERNEED, {strings_at + strings}},
                           {DT_VERNEEDNUM, {libraries}},
                           {DT_NULL, {0}}},
                          tables)
        .bytes();
}

// A file with global functions of these names and the older (SysV) hash table, with one bucket, which claims to have
// `n_symbols`. Adjacent equal names share their text. If `circle` is true, the last symbol's chain leads back to
// itself.
inline std::string file_with_symbols(const std::vector<std::string> &names, std::uint32_t n_symbols, bool circle,
                                     std::uint16_t section = 1) {
    constexpr std::size_t n_entries = 5;
    const std::uint64_t strings_at = DynamicElfFile::address_of_tables(n_entries);
    std::string strings(1, '\0');
    std::string symbols(sizeof(Elf64_Sym), '\0');
    std::string hashes;
    const auto add = [](std::string &to, const auto &value) {
        to.append(reinterpret_cast<const char *>(&value), sizeof value);
    };
    add(hashes, std::uint32_t{1});
    add(hashes, n_symbols);
    add(hashes, std::uint32_t{names.empty() ? 0u : 1u});
    add(hashes, std::uint32_t{0});
    std::size_t text_at = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i == 0 || names[i] != names[i - 1]) {
            text_at = strings.size();
            strings += names[i] + '\0';
        }
        Elf64_Sym symbol{};
        symbol.st_name = static_cast<Elf64_Word>(text_at);
        symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        symbol.st_shndx = section;
        add(symbols, symbol);
        const std::size_t next = i + 1 < names.size() ? i + 2 : circle ? i + 1 : 0;
        add(hashes, static_cast<std::uint32_t>(next));
    }
    const std::string tables = strings + symbols + hashes;
    return DynamicElfFile({{DT_STRTAB, {strings_at}},
                           {DT_STRSZ, {strings.size()}},
                           {DT_SYMTAB, {strings_at + strings.size()}},
                           {DT_HASH, {strings_at + strings.size() + symbols.size()}},
                           {DT_NULL, {0}}},
                          tables)
        .bytes();
}

} // namespace opdock::test
