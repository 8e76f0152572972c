// The smallest file that inspection accepts as a shared object: an ELF header, program headers and notes. Tests change
// a field and check the verdict.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

namespace opdock::test {

struct ElfNote {
    std::string_view name;
    std::uint32_t type;
    std::string payload;
};

// A note named "opdock" of type 1, with the NUL that the SDK's macro leaves after the JSON.
inline ElfNote opdock_note(std::string json) {
    return {"opdock", 1, std::move(json) + '\0'};
}

inline std::string note_segment(const std::vector<ElfNote> &notes, std::size_t alignment = 4) {
    std::string bytes;
    const auto pad = [&] { bytes.resize((bytes.size() + alignment - 1) / alignment * alignment); };
    for (const ElfNote &note : notes) {
        const Elf64_Nhdr header{static_cast<Elf64_Word>(note.name.size() + 1),
                                static_cast<Elf64_Word>(note.payload.size()), note.type};
        bytes.append(reinterpret_cast<const char *>(&header), sizeof header);
        bytes += note.name;
        bytes += '\0';
        pad();
        bytes += note.payload;
        pad();
    }
    return bytes;
}

struct ElfFile {
    Elf64_Ehdr header{};
    Elf64_Phdr notes{};
    std::string content; // of the note segment

    explicit ElfFile(std::string note_bytes) : content(std::move(note_bytes)) {
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_ident[EI_VERSION] = EV_CURRENT;
        header.e_type = ET_DYN;
#if defined(__aarch64__)
        header.e_machine = EM_AARCH64;
#else
        header.e_machine = EM_X86_64;
#endif
        header.e_version = EV_CURRENT;
        header.e_phoff = sizeof header;
        header.e_ehsize = sizeof header;
        header.e_phentsize = sizeof notes;
        header.e_phnum = 1;
        notes.p_type = PT_NOTE;
        notes.p_offset = sizeof header + sizeof notes;
        notes.p_filesz = content.size();
        notes.p_memsz = content.size();
        notes.p_align = 4;
    }

    std::string bytes() const {
        return std::string(reinterpret_cast<const char *>(&header), sizeof header) +
               std::string(reinterpret_cast<const char *>(&notes), sizeof notes) + content;
    }
};

} // namespace opdock::test
