#include "elf.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opdock/abi/note.h"
#include "reject.hpp"

namespace opdock::core {
namespace {

constexpr std::uint64_t largest_file = std::uint64_t{4} << 30; // code is addressed with 32 bits; the rest is room
constexpr std::uint16_t most_segments = 256;                   // linkers write about a dozen
constexpr std::uint64_t largest_notes = 64 << 10;
constexpr std::uint32_t largest_payload = 4096;

#if defined(__x86_64__)
constexpr std::uint16_t this_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t this_machine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t this_machine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr std::uint16_t this_machine = EM_PPC64;
#elif defined(__loongarch__)
constexpr std::uint16_t this_machine = 258; // EM_LOONGARCH, unknown to older elf.h
#else
#error "Name this machine's EM_ constant here."
#endif

constexpr unsigned char this_byte_order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

std::string machine_name(std::uint16_t machine) {
    switch (machine) {
    case EM_386:
        return "x86 (32 bits)";
    case EM_X86_64:
        return "x86-64";
    case EM_ARM:
        return "Arm (32 bits)";
    case EM_AARCH64:
        return "AArch64";
    case EM_PPC64:
        return "POWER";
    case EM_RISCV:
        return "RISC-V";
    case 258:
        return "LoongArch";
    default:
        return fmt::format("ELF machine {}", machine);
    }
}

std::string system_message(int code) {
    return std::generic_category().message(code);
}

template<typename T>
T read_struct(const PluginFile &file, std::uint64_t offset) {
    T value;
    file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
}

// Whether [offset, offset + bytes) lies within the file, whatever the two numbers are.
bool within(const PluginFile &file, std::uint64_t offset, std::uint64_t bytes) {
    return offset <= file.size() && bytes <= file.size() - offset;
}

[[noreturn]] void reject_truncated(const PluginFile &file, const std::string &what) {
    throw Rejected(RejectCode::truncated, fmt::format("'{}' is truncated: it has {} bytes, and {} lies beyond them.\n"
                                                      "Copy or install it again.",
                                                      file.name(), file.size(), what));
}

[[noreturn]] void reject_malformed(const PluginFile &file, const std::string &what) {
    throw Rejected(RejectCode::malformed_elf, fmt::format("'{}' is not a sound ELF file: {}.\n"
                                                          "Copy or install it again, or ask its vendor.",
                                                          file.name(), what));
}

void check_identification(const PluginFile &file) {
    std::array<unsigned char, EI_NIDENT> identification{};
    if (file.size() >= identification.size()) {
        file.read(0, std::as_writable_bytes(std::span(identification)));
    }
    if (std::memcmp(identification.data(), ELFMAG, SELFMAG) != 0) {
        throw Rejected(RejectCode::not_elf,
                       fmt::format("'{}' is not an ELF shared object{}.\n"
                                   "Name the shared object itself, not a linker script, an archive or a tune file.",
                                   file.name(), file.size() == 0 ? ": it is empty" : ""));
    }
    if (identification[EI_CLASS] != ELFCLASS64 || identification[EI_DATA] != this_byte_order) {
        throw Rejected(
            RejectCode::wrong_machine,
            fmt::format("'{}' was built for a machine with {} bits and {} byte order; this host needs 64 bits "
                        "and {} byte order.\nInstall the build for this machine.",
                        file.name(), identification[EI_CLASS] == ELFCLASS64 ? "64" : "32",
                        identification[EI_DATA] == ELFDATA2LSB ? "little-endian" : "big-endian",
                        this_byte_order == ELFDATA2LSB ? "little-endian" : "big-endian"));
    }
}

Elf64_Ehdr read_header(const PluginFile &file) {
    check_identification(file);
    if (!within(file, 0, sizeof(Elf64_Ehdr))) {
        reject_truncated(file, "the end of its ELF header");
    }
    const auto header = read_struct<Elf64_Ehdr>(file, 0);
    if (header.e_machine != this_machine) {
        throw Rejected(RejectCode::wrong_machine,
                       fmt::format("'{}' was built for {}; this machine is {}.\n"
                                   "Install the build for this machine.",
                                   file.name(), machine_name(header.e_machine), machine_name(this_machine)));
    }
    if (header.e_type != ET_DYN) {
        throw Rejected(RejectCode::not_elf,
                       fmt::format("'{}' is an ELF file but not a shared object (type {}, expected "
                                   "{}).\nLink it with -shared.",
                                   file.name(), header.e_type, ET_DYN));
    }
    return header;
}

std::vector<Elf64_Phdr> read_segments(const PluginFile &file, const Elf64_Ehdr &header) {
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > most_segments) {
        reject_malformed(file, fmt::format("{} program headers of {} bytes, expected 1 to {} of {}", header.e_phnum,
                                           header.e_phentsize, most_segments, sizeof(Elf64_Phdr)));
    }
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    if (!within(file, header.e_phoff, segments.size() * sizeof(Elf64_Phdr))) {
        reject_truncated(file, "its table of segments");
    }
    file.read(header.e_phoff, std::as_writable_bytes(std::span(segments)));
    return segments;
}

// The section table is what linkers write last, so a file that holds it was not cut anywhere.
void check_whole(const PluginFile &file, const Elf64_Ehdr &header, const std::vector<Elf64_Phdr> &segments) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
        if (!within(file, segments[i].p_offset, segments[i].p_filesz)) {
            reject_truncated(file, fmt::format("segment {} (bytes {} to {})", i, segments[i].p_offset,
                                               segments[i].p_offset + segments[i].p_filesz));
        }
        if (segments[i].p_type == PT_LOAD && segments[i].p_filesz > segments[i].p_memsz) {
            reject_malformed(file, fmt::format("segment {} is larger in the file than in memory", i));
        }
    }
    const std::uint64_t section_bytes = std::uint64_t{header.e_shnum} * header.e_shentsize;
    if (header.e_shoff != 0 && !within(file, header.e_shoff, section_bytes)) {
        reject_truncated(file, "its table of sections");
    }
}

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
void collect_notes(const PluginFile &file, std::string_view segment, std::size_t alignment, ElfNotes &notes) {
    while (segment.size() >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr header;
        std::memcpy(&header, segment.data(), sizeof header);
        const std::size_t payload_at = round_up(sizeof header + std::size_t{header.n_namesz}, alignment);
        const std::size_t end = payload_at + header.n_descsz;
        if (end > segment.size()) {
            reject_malformed(file, "a note is longer than the segment that holds it");
        }
        const std::string_view name = segment.substr(sizeof header, header.n_namesz);
        const std::string_view payload = segment.substr(payload_at, header.n_descsz);
        if (name == std::string_view(OPDOCK_NOTE_OWNER, sizeof OPDOCK_NOTE_OWNER) &&
            header.n_type == OPDOCK_NOTE_TYPE) {
            if (payload.size() > largest_payload) {
                throw Rejected(RejectCode::malformed_note, fmt::format("the note of '{}' has {} bytes, more than {}.\n"
                                                                       "Write it with OPDOCK_NOTE of the plugin SDK.",
                                                                       file.name(), payload.size(), largest_payload));
            }
            notes.opdock.emplace_back(payload.substr(0, payload.find('\0')));
        } else if (name == std::string_view(ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) && header.n_type == NT_GNU_BUILD_ID) {
            notes.build_id = hexadecimal(payload.substr(0, 64));
        }
        segment.remove_prefix(std::min(round_up(end, alignment), segment.size()));
    }
}

} // namespace

PluginFile::PluginFile(const std::filesystem::path &path) : name_(path.filename().string()) {
    // O_NONBLOCK: opening a FIFO that nobody writes to would block.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) {
        const int code = errno;
        throw Rejected(code == ENOENT || code == ENOTDIR ? RejectCode::not_found : RejectCode::unreadable,
                       fmt::format("'{}' cannot be opened: {}.\nCheck the path and its permissions.", name_,
                                   system_message(code)));
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(descriptor_);
        throw Rejected(RejectCode::not_regular_file, fmt::format("'{}' is not a regular file.\n"
                                                                 "Name a shared object, or a folder that holds some.",
                                                                 name_));
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (size_ > largest_file) {
        ::close(descriptor_);
        throw Rejected(RejectCode::too_large, fmt::format("'{}' has {} bytes, more than the {} a plugin may have.\n"
                                                          "Move data that is not code into files beside the plugin.",
                                                          name_, size_, largest_file));
    }
}

PluginFile::~PluginFile() {
    ::close(descriptor_);
}

void PluginFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            throw Rejected(RejectCode::unreadable, fmt::format("'{}' cannot be read: {}.\nCopy or install it again.",
                                                               name_, system_message(errno)));
        }
        if (got == 0) {
            throw Rejected(RejectCode::truncated,
                           fmt::format("'{}' became shorter while it was read.\nInstall plugins by renaming them into "
                                       "place.",
                                       name_));
        }
        bytes = bytes.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
}

ElfNotes read_elf_notes(const PluginFile &file) {
    const Elf64_Ehdr header = read_header(file);
    const std::vector<Elf64_Phdr> segments = read_segments(file, header);
    check_whole(file, header, segments);

    ElfNotes notes;
    for (const Elf64_Phdr &segment : segments) {
        if (segment.p_type != PT_NOTE) {
            continue;
        }
        if (segment.p_filesz > largest_notes) {
            reject_malformed(file,
                             fmt::format("its notes have {} bytes, more than {}", segment.p_filesz, largest_notes));
        }
        std::string bytes(segment.p_filesz, '\0');
        file.read(segment.p_offset, std::as_writable_bytes(std::span(bytes)));
        collect_notes(file, bytes, segment.p_align == 8 ? 8 : 4, notes);
    }
    return notes;
}

} // namespace opdock::core
