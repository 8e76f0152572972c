#include "inspect/elf_notes.hpp"

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

// A note segment is a sequence of: name size, payload size, type, name, payload; the last two padded.
void collect_notes(const ElfImage &image, std::string_view segment, std::size_t alignment, ElfNotes &notes) {
    while (segment.size() >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr header;
        std::memcpy(&header, segment.data(), sizeof header);
        const std::size_t payload_at = round_up(sizeof header + std::size_t{header.n_namesz}, alignment);
        const std::size_t end = payload_at + header.n_descsz;
        if (end > segment.size()) {
            image.reject("a note is longer than the segment that holds it");
        }
        const std::string_view name = segment.substr(sizeof header, header.n_namesz);
        const std::string_view payload = segment.substr(payload_at, header.n_descsz);
        if (name == std::string_view(OPDOCK_NOTE_OWNER, sizeof OPDOCK_NOTE_OWNER) &&
            header.n_type == OPDOCK_NOTE_TYPE) {
            if (payload.size() > largest_payload) {
                throw Rejected(RejectCode::malformed_note,
                               fmt::format("the note of '{}' has {} bytes, more than {}.\n"
                                           "Write it with OPDOCK_NOTE of the plugin SDK.",
                                           image.file().name(), payload.size(), largest_payload));
            }
            notes.opdock.emplace_back(payload.substr(0, payload.find('\0')));
        } else if (name == std::string_view(ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) && header.n_type == NT_GNU_BUILD_ID) {
            notes.build_id = hexadecimal(payload.substr(0, 64));
        }
        segment.remove_prefix(std::min(round_up(end, alignment), segment.size()));
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
        collect_notes(image, bytes, segment.p_align == 8 ? 8 : 4, notes);
    }
    return notes;
}

} // namespace opdock::core
