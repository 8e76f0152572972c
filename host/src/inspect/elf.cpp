#include "inspect/elf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "files/reject.hpp"

namespace opdock::core {
namespace {

constexpr std::uint16_t most_segments = 256;                   // linkers write about a dozen
constexpr std::uint64_t most_address = std::uint64_t{1} << 56; // beyond any process's address space

#if defined(__x86_64__)
constexpr std::uint16_t this_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t this_machine = EM_AARCH64;
#elif defined(__riscv)
constexpr std::uint16_t this_machine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr std::uint16_t this_machine = EM_PPC64;
#elif defined(__loongarch__)
constexpr std::uint16_t this_machine = 258; // EM_LOONGARCH, missing in older elf.h
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

template<typename T>
T read_struct(const PluginFile &file, std::uint64_t offset) {
    T value;
    file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
}

// True if [offset, offset + bytes) is within the file, for any values of the two numbers.
bool within(const PluginFile &file, std::uint64_t offset, std::uint64_t bytes) {
    return offset <= file.size() && bytes <= file.size() - offset;
}

[[noreturn]] void reject_truncated(const PluginFile &file, const std::string &what) {
    throw Rejected(RejectCode::truncated, fmt::format("'{}' is truncated: it has {} bytes, but {} lies beyond them.\n"
                                                      "Copy or install it again.",
                                                      file.name(), file.size(), what));
}

[[noreturn]] void reject_malformed(const PluginFile &file, const std::string &what) {
    throw Rejected(RejectCode::malformed_elf, fmt::format("'{}' is not a valid ELF file: {}.\n"
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
                                   "Specify the shared object itself, not a linker script, an archive or a tune file.",
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

// Linkers write the section table last, so a file that contains it was not truncated.
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

// The loader maps whole pages, later segments over earlier ones, and computes the address range from the first and the
// last. Only if segments are in ascending order does it map exactly what is read here, and nothing over other memory of
// the process.
void check_order(const PluginFile &file, const std::vector<Elf64_Phdr> &segments) {
    constexpr std::uint64_t page = 4096; // the smallest; also valid for larger pages
    const Elf64_Phdr *before = nullptr;
    for (const Elf64_Phdr &segment : segments) {
        if (segment.p_type != PT_LOAD) {
            continue;
        }
        const std::uint64_t end_before = before == nullptr ? 0 : before->p_vaddr + before->p_memsz;
        const bool shares_page = before != nullptr && segment.p_vaddr / page * page < end_before;
        if (segment.p_vaddr < end_before || segment.p_memsz > most_address - std::min(segment.p_vaddr, most_address) ||
            (shares_page && segment.p_vaddr - segment.p_offset != before->p_vaddr - before->p_offset)) {
            reject_malformed(file,
                             fmt::format("the segment at {:#x} does not follow the previous one, or is not below {:#x}",
                                         segment.p_vaddr, most_address));
        }
        before = &segment;
    }
}

} // namespace

ElfImage::ElfImage(const PluginFile &file) : file_(file) {
    const Elf64_Ehdr header = read_header(file);
    segments_ = read_segments(file, header);
    check_whole(file, header, segments_);
    check_order(file, segments_);
}

void ElfImage::read(std::uint64_t address, std::span<std::byte> bytes) const {
    for (const Elf64_Phdr &segment : segments_) {
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr <= segment.p_filesz &&
            bytes.size() <= segment.p_filesz - (address - segment.p_vaddr)) {
            file_.read(segment.p_offset + (address - segment.p_vaddr), bytes);
            return;
        }
    }
    reject(fmt::format("it refers to {} bytes at {:#x}, which no segment holds", bytes.size(), address));
}

void ElfImage::reject(const std::string &what) const {
    reject_malformed(file_, what);
}

} // namespace opdock::core
