#include "inspect/elf_notes.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "files/reject.hpp"
#include "opdock/abi/note.h"

namespace opdock::core {
namespace {

constexpr std::uint64_t largest_notes = 64 << 10;
constexpr std::uint32_t largest_payload = 4096;

std::string hexadecimal(std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    return text;
}

std::size_t round_up(std::size_t value, std::size_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

struct ElfNote {
    std::uint32_t type;
    std::string_view name; // including its NUL
    std::string_view payload;
};

// Visits each note of a segment: name size, payload size, type, name, payload; the last two padded. Returns false if
// the segment ends within a note.
template<class Visit>
bool each_note(std::string_view segment, std::size_t alignment, Visit visit) {
    alignment = alignment == 8 ? 8 : 4;
    while (segment.size() >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr header;
        std::memcpy(&header, segment.data(), sizeof header);
        const std::size_t payload_at = round_up(sizeof header + std::size_t{header.n_namesz}, alignment);
        const std::size_t end = payload_at + header.n_descsz;
        if (end > segment.size()) {
            return false;
        }
        visit(ElfNote{header.n_type, segment.substr(sizeof header, header.n_namesz),
                      segment.substr(payload_at, header.n_descsz)});
        segment.remove_prefix(std::min(round_up(end, alignment), segment.size()));
    }
    return true;
}

bool is_build_id(const ElfNote &note) {
    return note.name == std::string_view(ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) && note.type == NT_GNU_BUILD_ID;
}

std::string build_id_of(const ElfNote &note) {
    return hexadecimal(note.payload.substr(0, 64));
}

void collect_notes(const ElfImage &image, std::string_view segment, std::size_t alignment, ElfNotes &notes) {
    const bool is_whole = each_note(segment, alignment, [&](const ElfNote &note) {
        if (note.name == std::string_view(OPDOCK_NOTE_OWNER, sizeof OPDOCK_NOTE_OWNER) &&
            note.type == OPDOCK_NOTE_TYPE) {
            if (note.payload.size() > largest_payload) {
                throw Rejected(RejectCode::malformed_note,
                               fmt::format("the note of '{}' has {} bytes, more than {}.\n"
                                           "Write it with OPDOCK_NOTE of the plugin SDK.",
                                           image.file().name(), note.payload.size(), largest_payload));
            }
            notes.opdock.emplace_back(note.payload.substr(0, note.payload.find('\0')));
        } else if (is_build_id(note)) {
            notes.build_id = build_id_of(note);
        }
    });
    if (!is_whole) {
        image.reject("a note is longer than the segment that holds it");
    }
}

} // namespace

ElfNotes read_notes(const ElfImage &image) {
    ElfNotes notes;
    for (const Elf64_Phdr &segment : image.segments()) {
        if (segment.p_type != PT_NOTE) {
            continue;
        }
        if (segment.p_filesz > largest_notes) {
            image.reject(fmt::format("its notes have {} bytes, more than {}", segment.p_filesz, largest_notes));
        }
        std::string bytes(segment.p_filesz, '\0');
        image.file().read(segment.p_offset, std::as_writable_bytes(std::span(bytes)));
        collect_notes(image, bytes, segment.p_align, notes);
    }
    return notes;
}

std::string build_text(const std::string &build_id) {
    return build_id.empty() ? "a build without id" : "build " + build_id;
}

std::string read_build_id(const std::filesystem::path &path) try {
    const PluginFile file(path);
    return read_notes(ElfImage(file)).build_id;
} catch (const Rejected &) {
    return {};
}

std::string find_build_id(std::string_view segment, std::size_t alignment) {
    std::string found;
    each_note(segment, alignment, [&](const ElfNote &note) {
        if (is_build_id(note)) {
            found = build_id_of(note);
        }
    });
    return found;
}

} // namespace opdock::core
