#include "inspect/inspect.hpp"

#include <array>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "elf_file.hpp"
#include "files/plugin_file.hpp"
#include "inspect/elf_notes.hpp"
#include "opdock/abi/note.h"
#include "paths.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using namespace opdock::test;

namespace {

const std::filesystem::path fixtures = fixtures_folder();

// Inspects a file as a host without a history would.
Inspection inspect(const std::filesystem::path &path) {
    LibraryVersions versions;
    return opdock::core::inspect(path, versions);
}

std::string content_of(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

ElfFile sound_file() {
    return ElfFile(note_segment({opdock_note(OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", ""))}));
}

Inspection inspect_bytes(std::string_view bytes) {
    const TemporaryDirectory directory;
    return inspect(directory.write("libacme.so", bytes));
}

Rejection rejection_of(const std::filesystem::path &path) {
    const Inspection inspection = inspect(path);
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->path == path);
    CHECK(inspection.rejection->message.find(path.filename().string()) != std::string::npos);
    return *inspection.rejection;
}

RejectCode code_of(std::string_view bytes) {
    const TemporaryDirectory directory;
    return rejection_of(directory.write("libacme.so", bytes)).code;
}

bool contains(const std::string &text, std::string_view words) {
    return text.find(words) != std::string::npos;
}

} // namespace

TEST_CASE("a plugin that a vendor built passes, with its note and build id") {
    const Inspection inspection = inspect(fixtures / "libgood.so");
    REQUIRE_MESSAGE(!inspection.rejection, inspection.rejection->message);
    REQUIRE(inspection.note);
    CHECK(inspection.note->id == "acme");
    CHECK(inspection.note->vendor == "acme");
    CHECK(inspection.note->version == "1.0.0");
    CHECK(inspection.note->devices == std::vector<std::string>{"cpu"});
    CHECK(inspection.note->abi == host_abi);
}

TEST_CASE("a symbolic link to a plugin is followed") {
    const TemporaryDirectory directory;
    std::filesystem::create_symlink(fixtures / "libgood.so", directory.path() / "link.so");
    CHECK_FALSE(inspect(directory.path() / "link.so").rejection);
}

TEST_CASE("a file that is not there is not found") {
    CHECK(rejection_of(fixtures / "libnowhere.so").code == RejectCode::not_found);
    CHECK(rejection_of(fixtures / "libgood.so" / "within.so").code == RejectCode::not_found);
    const TemporaryDirectory directory;
    std::filesystem::create_symlink("dangling", directory.path() / "link.so");
    CHECK(rejection_of(directory.path() / "link.so").code == RejectCode::not_found);
}

TEST_CASE("directories and devices are rejected") {
    CHECK(rejection_of(fixtures).code == RejectCode::not_regular_file);
    CHECK(rejection_of("/dev/zero").code == RejectCode::not_regular_file);
}

TEST_CASE("a FIFO that nobody writes to is rejected without blocking") {
    const TemporaryDirectory directory;
    const auto fifo = directory.path() / "fifo.so";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(rejection_of(fifo).code == RejectCode::not_regular_file);
}

TEST_CASE("a loop of symbolic links is unreadable") {
    const TemporaryDirectory directory;
    std::filesystem::create_symlink("loop.so", directory.path() / "loop.so");
    const Rejection rejection = rejection_of(directory.path() / "loop.so");
    CHECK(rejection.code == RejectCode::unreadable);
    CHECK(contains(rejection.message, "Too many levels of symbolic links"));
}

TEST_CASE("a huge sparse file is rejected by its size") {
    const TemporaryDirectory directory;
    const auto file = directory.write("huge.so", sound_file().bytes());
    std::filesystem::resize_file(file, std::uintmax_t{1} << 40);
    CHECK(rejection_of(file).code == RejectCode::too_large);
    std::filesystem::resize_file(file, (std::uintmax_t{4} << 30) + 1);
    CHECK(rejection_of(file).code == RejectCode::too_large);
    std::filesystem::resize_file(file, std::uintmax_t{4} << 30);
    CHECK(rejection_of(file).code != RejectCode::too_large);
}

TEST_CASE("what is not an ELF file is rejected") {
    CHECK(code_of("") == RejectCode::not_elf);
    CHECK(code_of("\x7f") == RejectCode::not_elf);
    CHECK(code_of("INPUT ( libacme.so.1 )\n") == RejectCode::not_elf);
    CHECK(code_of("!<arch>\n" + std::string(200, ' ')) == RejectCode::not_elf);
}

TEST_CASE("an executable or an object file is rejected") {
    for (const int type : {ET_REL, ET_EXEC, ET_CORE}) {
        ElfFile file = sound_file();
        file.header.e_type = static_cast<Elf64_Half>(type);
        CHECK(code_of(file.bytes()) == RejectCode::not_elf);
    }
}

TEST_CASE("notes have at most 64 KiB, and the one of opdock at most 4096 bytes") {
    const std::string json = OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", "");
    const auto of_payload = [&](std::size_t size) {
        return ElfFile(note_segment({opdock_note(json + std::string(size - json.size() - 1, ' '))})).bytes();
    };
    CHECK(inspect_bytes(of_payload(4096)).note);
    CHECK(code_of(of_payload(4097)) == RejectCode::malformed_note);
    const auto of_segment = [&](std::size_t size) {
        const std::string own = note_segment({opdock_note(json)});
        const std::string header = note_segment({{"other", 7, ""}});
        ElfFile file(own + note_segment({{"other", 7, std::string(size - own.size() - header.size(), 'x')}}));
        CHECK(file.content.size() == size);
        return file.bytes();
    };
    CHECK(inspect_bytes(of_segment(64 << 10)).note);
    const Inspection larger = inspect_bytes(of_segment((64 << 10) + 4));
    REQUIRE(larger.rejection);
    CHECK(larger.rejection->code == RejectCode::malformed_elf);
    CHECK(contains(larger.rejection->message, "its notes have 65540 bytes, more than 65536"));
}

TEST_CASE("another class, byte order or machine is rejected, and both machines are named") {
    ElfFile file = sound_file();
    SUBCASE("32 bits") {
        file.header.e_ident[EI_CLASS] = ELFCLASS32;
    }
    SUBCASE("big-endian") {
        file.header.e_ident[EI_DATA] = ELFDATA2MSB;
    }
    SUBCASE("machine") {
        file.header.e_machine = EM_S390;
    }
    CHECK(code_of(file.bytes()) == RejectCode::wrong_machine);

    ElfFile risc_v = sound_file();
    risc_v.header.e_machine = EM_RISCV;
    const Inspection inspection = inspect_bytes(risc_v.bytes());
    REQUIRE(inspection.rejection);
    CHECK(contains(inspection.rejection->message, "was built for RISC-V; this machine is "));
}

TEST_CASE("bits and byte order are told as the file has them, beside those of this machine") {
    ElfFile file = sound_file();
    std::string_view found;
    SUBCASE("bits") {
        file.header.e_ident[EI_CLASS] = ELFCLASS32;
        found = "32 bits and little-endian";
    }
    SUBCASE("byte order") {
        file.header.e_ident[EI_DATA] = ELFDATA2MSB;
        found = "64 bits and big-endian";
    }
    const Inspection inspection = inspect_bytes(file.bytes());
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->message ==
          fmt::format("'libacme.so' was built for a machine with {} byte order; this host needs 64 bits and {} byte "
                      "order.\nInstall the build for this machine.",
                      found, std::endian::native == std::endian::little ? "little-endian" : "big-endian"));
}

TEST_CASE("a plugin cut anywhere is rejected") {
    const std::string whole = content_of(fixtures / "libgood.so");
    REQUIRE(whole.size() > 4096);
    const TemporaryDirectory directory;
    const auto file = directory.write("libgood.so", whole);
    REQUIRE_FALSE(inspect(file).rejection);
    // Truncated at every byte of the headers and every 61st of the rest, from the end to the beginning.
    for (std::uintmax_t size = whole.size() - 1; size > 0; size -= size > 1024 ? 61 : 1) {
        std::filesystem::resize_file(file, size);
        const Inspection inspection = inspect(file);
        REQUIRE_MESSAGE(inspection.rejection, "cut to " << size << " of " << whole.size() << " bytes");
        const RejectCode code = inspection.rejection->code;
        CHECK((code == RejectCode::truncated || (code == RejectCode::not_elf && size < EI_NIDENT)));
    }
}

TEST_CASE("a plugin that is cut while it is read is rejected") {
    const TemporaryDirectory directory;
    const auto path = directory.write("libacme.so", "0123456789");
    const PluginFile file(path);
    std::filesystem::resize_file(path, 4);
    std::array<std::byte, 8> bytes{};
    try {
        file.read(0, bytes);
        FAIL("nothing was thrown");
    } catch (const Rejected &rejected) {
        CHECK(rejected.code() == RejectCode::truncated);
        CHECK(contains(rejected.what(), "'libacme.so' became shorter while it was read"));
    }
    CHECK(file.is_changed());
}

TEST_CASE("no change of bytes in headers and notes does more than change the verdict") {
    const std::uint32_t seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::string sound = sound_file().bytes();
    const TemporaryDirectory directory;
    for (int round = 0; round < 3000; ++round) {
        std::string bytes = sound;
        for (int change = 0; change < 1 + round % 4; ++change) {
            bytes[random() % bytes.size()] = static_cast<char>(random());
        }
        const Inspection inspection = inspect(directory.write("libacme.so", bytes));
        CHECK((inspection.rejection.has_value() || inspection.note.has_value()));
    }
}

TEST_CASE("numbers that overflow when they are added lie outside the file") {
    ElfFile file = sound_file();
    SUBCASE("segment offset") {
        file.notes.p_offset = ~std::uint64_t{0};
    }
    SUBCASE("segment size") {
        file.notes.p_filesz = ~std::uint64_t{0};
    }
    SUBCASE("segment offset and size") {
        file.notes.p_offset = ~std::uint64_t{0} - 15;
        file.notes.p_filesz = 32;
    }
    SUBCASE("segment table") {
        file.header.e_phoff = ~std::uint64_t{0} - 7;
    }
    SUBCASE("section table") {
        file.header.e_shoff = ~std::uint64_t{0} - 63;
        file.header.e_shentsize = 64;
        file.header.e_shnum = 1;
    }
    CHECK(code_of(file.bytes()) == RejectCode::truncated);
}

TEST_CASE("headers that contradict themselves are rejected") {
    ElfFile file = sound_file();
    SUBCASE("no segments") {
        file.header.e_phnum = 0;
    }
    SUBCASE("more segments than any linker writes") {
        file.header.e_phnum = 0xffff;
    }
    SUBCASE("segments of another size") {
        file.header.e_phentsize = 32;
    }
    SUBCASE("more bytes in the file than in memory") {
        file.notes.p_type = PT_LOAD;
        file.notes.p_memsz = 0;
    }
    CHECK(code_of(file.bytes()) == RejectCode::malformed_elf);
}

TEST_CASE("a file without a table of sections is whole, whatever size its header gives one") {
    ElfFile file = sound_file();
    file.header.e_shnum = 0xffff;
    file.header.e_shentsize = 64;
    CHECK(code_of(file.bytes()) != RejectCode::truncated);
    file.header.e_shoff = 1;
    CHECK(code_of(file.bytes()) == RejectCode::truncated);
}

namespace {

struct Load {
    std::uint64_t offset, address, bytes; // bytes in memory; the file has none of them
};

bool are_in_order(const std::vector<Load> &loads) {
    ElfFile file = sound_file();
    file.header.e_phnum = static_cast<Elf64_Half>(loads.size());
    std::string bytes(reinterpret_cast<const char *>(&file.header), sizeof file.header);
    for (const Load &load : loads) {
        Elf64_Phdr segment{};
        segment.p_type = PT_LOAD;
        segment.p_offset = load.offset;
        segment.p_vaddr = load.address;
        segment.p_memsz = load.bytes;
        bytes.append(reinterpret_cast<const char *>(&segment), sizeof segment);
    }
    bytes.resize(8192);
    const Inspection inspection = inspect_bytes(bytes);
    return !inspection.rejection || !contains(inspection.rejection->message, "does not follow the previous one");
}

} // namespace

TEST_CASE("segments follow one another, and two in one page have the same bytes there") {
    constexpr std::uint64_t end = std::uint64_t{1} << 56;
    CHECK(are_in_order({{0, 0, 0x100}, {0x100, 0x100, 0x100}}));
    CHECK_FALSE(are_in_order({{0, 0, 0x100}, {0xff, 0xff, 0x100}}));
    CHECK(are_in_order({{0, 0, 0x100}, {0x100, 0x1100, 0x100}}));
    CHECK_FALSE(are_in_order({{0, 0, 0x100}, {0x100, 0x200, 0x100}}));
    CHECK_FALSE(are_in_order({{0, 0, 0x100}, {0x100, 0xfff, 0x100}}));
    CHECK(are_in_order({{0, 0, 0x100}, {0x100, 0x1000, 0x100}}));
    CHECK(are_in_order({{0, 0, 0x1000}, {0x50, 0x1000, 0x100}}));
    CHECK_FALSE(are_in_order({{0, 0, 0x1001}, {0x50, 0x1001, 0x100}}));
    CHECK(are_in_order({{0x40, 0x10040, 0x100}, {0x140, 0x10140, 0x100}}));
    CHECK_FALSE(are_in_order({{0x40, 0x10040, 0x100}, {0x141, 0x10140, 0x100}}));
    CHECK(are_in_order({{0, 4096, end - 4096}}));
    CHECK_FALSE(are_in_order({{0, 4096, end - 4095}}));
    CHECK(are_in_order({{0, end, 0}}));
    CHECK_FALSE(are_in_order({{0, end, 1}}));
    CHECK_FALSE(are_in_order({{0, end + 1, 1}}));
}

TEST_CASE("a note longer than its segment is rejected") {
    ElfFile file = sound_file();
    const std::uint32_t enormous = 0xfffffff0;
    SUBCASE("name") {
        std::memcpy(file.content.data(), &enormous, 4);
    }
    SUBCASE("payload") {
        std::memcpy(file.content.data() + 4, &enormous, 4);
    }
    SUBCASE("both") {
        std::memcpy(file.content.data(), &enormous, 4);
        std::memcpy(file.content.data() + 4, &enormous, 4);
    }
    CHECK(code_of(file.bytes()) == RejectCode::malformed_elf);
}

TEST_CASE("notes of unreasonable size are rejected unread") {
    ElfFile segment(note_segment({{"other", 1, std::string(100000, 'x')}}));
    CHECK(code_of(segment.bytes()) == RejectCode::malformed_elf);
    ElfFile payload(note_segment({opdock_note("{\"padding\":\"" + std::string(10000, 'x') + "\"}")}));
    CHECK(code_of(payload.bytes()) == RejectCode::malformed_note);
}

TEST_CASE("a shared object without our note is no plugin") {
    CHECK(rejection_of(fixtures / "libno_note.so").code == RejectCode::no_note);
    const std::string json = OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", "");
    CHECK(code_of(ElfFile(note_segment({{"opdocks", 1, json}})).bytes()) == RejectCode::no_note);
    CHECK(code_of(ElfFile(note_segment({{"opdock", 2, json}})).bytes()) == RejectCode::no_note);
    ElfFile no_note_segment = sound_file();
    no_note_segment.notes.p_type = PT_NULL;
    CHECK(code_of(no_note_segment.bytes()) == RejectCode::no_note);
}

TEST_CASE("our note is found behind others, in segments of either alignment") {
    const ElfNote note = opdock_note(OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", ""));
    const std::vector<ElfNote> notes{{"GNU", 5, "property"}, {"GNU", 3, "\xab\xcd\x01"}, {"stapsdt", 3, "probe"}, note};
    for (const std::size_t alignment : {4, 8}) {
        ElfFile file(note_segment(notes, alignment));
        file.notes.p_align = alignment;
        const Inspection inspection = inspect_bytes(file.bytes());
        REQUIRE(inspection.note);
        CHECK(inspection.note->id == "acme");
        CHECK(inspection.build_id == "abcd01");
    }
}

TEST_CASE("two notes are two plugins in one file, which is malformed") {
    const ElfNote note = opdock_note(OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", ""));
    const Inspection inspection = inspect_bytes(ElfFile(note_segment({note, note})).bytes());
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->code == RejectCode::malformed_note);
    CHECK(contains(inspection.rejection->message, "has 2 of opdock's notes, expected one"));
}

TEST_CASE("a plugin for another ABI is rejected from its note, before its constructor could abort the process") {
    const Rejection rejection = rejection_of(fixtures / "libother_abi.so");
    CHECK(rejection.code == RejectCode::abi_mismatch);
    CHECK(contains(rejection.message, "was built for ABI 2.0"));
}

TEST_CASE("a note that cannot be understood is rejected") {
    CHECK(rejection_of(fixtures / "libbad_note.so").code == RejectCode::malformed_note);
}

TEST_CASE("a plugin that needs a CPU feature this machine lacks is rejected, and its note can still be read") {
    const Inspection inspection = inspect(fixtures / "libneeds_cpu.so");
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->code == RejectCode::cpu_feature_missing);
    CHECK(contains(inspection.rejection->message, "imaginary512"));
    REQUIRE(inspection.note);
    CHECK(inspection.note->id == "needs-cpu");
}

TEST_CASE("inspecting leaves no file open") {
    const auto open_files = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                             std::filesystem::directory_iterator());
    };
    const auto before = open_files();
    for (const char *name : {"libgood.so", "libno_note.so", "libother_abi.so", "libnowhere.so", "."}) {
        inspect(fixtures / name);
    }
    CHECK(open_files() == before);
}

namespace {

// A plugin as a vendor built it, with a few bytes changed.
class ChangedPlugin {
  public:
    ChangedPlugin() : bytes_(content_of(fixtures / "libgood.so")) {}

    Elf64_Phdr &segment(std::uint32_t type, std::uint32_t flags = 0) {
        const auto *header = reinterpret_cast<const Elf64_Ehdr *>(bytes_.data());
        auto *segments = reinterpret_cast<Elf64_Phdr *>(bytes_.data() + header->e_phoff);
        for (Elf64_Half i = 0; i < header->e_phnum; ++i) {
            if (segments[i].p_type == type && (segments[i].p_flags & flags) == flags) {
                return segments[i];
            }
        }
        FAIL("no such segment");
        std::abort();
    }
    Elf64_Dyn &dynamic(std::int64_t tag) {
        auto *entry = reinterpret_cast<Elf64_Dyn *>(bytes_.data() + segment(PT_DYNAMIC).p_offset);
        for (; entry->d_tag != DT_NULL; ++entry) {
            if (entry->d_tag == tag) {
                return *entry;
            }
        }
        FAIL("no such entry");
        std::abort();
    }
    // Linkers write one of two symbol tables, or both.
    void hide_tables_of_symbols() {
        auto *entry = reinterpret_cast<Elf64_Dyn *>(bytes_.data() + segment(PT_DYNAMIC).p_offset);
        for (; entry->d_tag != DT_NULL; ++entry) {
            if (entry->d_tag == DT_GNU_HASH || entry->d_tag == DT_HASH) {
                entry->d_tag = DT_RELACOUNT;
            }
        }
    }
    void replace(std::string_view text, std::string_view by) {
        REQUIRE(text.size() == by.size());
        std::size_t count = 0;
        for (std::size_t at = bytes_.find(text); at != std::string::npos; at = bytes_.find(text, at + 1)) {
            bytes_.replace(at, text.size(), by);
            ++count;
        }
        REQUIRE(count > 0);
    }
    std::string &bytes() { return bytes_; }
    Inspection inspect() const { return inspect_bytes(bytes_); }

  private:
    std::string bytes_;
};

} // namespace

TEST_CASE("a plugin without the entry is told before it is opened") {
    CHECK(rejection_of(fixtures / "libno_entry.so").code == RejectCode::entry_missing);
    ChangedPlugin plugin;
    plugin.replace("opdock_register", "opdock_registes");
    CHECK(plugin.inspect().rejection->code == RejectCode::entry_missing);
}

TEST_CASE("the entry is found in the older kind of symbol table too") {
    CHECK_FALSE(inspect(fixtures / "libold_hash_table.so").rejection);
}

TEST_CASE("a plugin that needs a newer C library is told which version, and which is here") {
    ChangedPlugin plugin;
    plugin.replace("GLIBC_2.", "GLIBC_9.");
    const Inspection inspection = plugin.inspect();
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->code == RejectCode::version_missing);
    CHECK(contains(inspection.rejection->message, "needs GLIBC_9."));
    CHECK(contains(inspection.rejection->message, "of libc.so.6; the newest here is GLIBC_2."));
}

TEST_CASE("memory that makes attacks easier is a weakness") {
    CHECK(inspect(fixtures / "libgood.so").weaknesses.empty());
    ChangedPlugin plugin;
    std::string_view expected;
    SUBCASE("writable code") {
        plugin.segment(PT_LOAD, PF_X).p_flags |= PF_W;
        expected = "both writable and executable";
    }
    SUBCASE("an executable stack") {
        plugin.segment(PT_GNU_STACK).p_flags |= PF_X;
        expected = "stacks of all threads executable";
    }
    SUBCASE("text relocations") {
        plugin.dynamic(DT_RELACOUNT).d_tag = DT_TEXTREL;
        expected = "text relocations";
    }
    const Inspection inspection = plugin.inspect();
    CHECK_FALSE(inspection.rejection);
    REQUIRE(inspection.weaknesses.size() == 1);
    CHECK(contains(inspection.weaknesses.front(), expected));
}

TEST_CASE("a dynamic section that leads nowhere is malformed") {
    ChangedPlugin plugin;
    SUBCASE("none") {
        plugin.segment(PT_DYNAMIC).p_type = PT_NULL;
    }
    SUBCASE("outside of all segments") {
        plugin.segment(PT_DYNAMIC).p_vaddr = ~std::uint64_t{0} - 8;
    }
    SUBCASE("without an end") {
        plugin.segment(PT_DYNAMIC).p_filesz = 3 * sizeof(Elf64_Dyn);
    }
    SUBCASE("strings elsewhere") {
        plugin.dynamic(DT_STRTAB).d_un.d_val = std::uint64_t{1} << 40;
    }
    SUBCASE("no room for strings") {
        plugin.dynamic(DT_STRSZ).d_un.d_val = 4;
    }
    SUBCASE("symbols elsewhere") {
        plugin.dynamic(DT_SYMTAB).d_un.d_val = std::uint64_t{1} << 40;
    }
    SUBCASE("no table of symbols") {
        plugin.hide_tables_of_symbols();
    }
    SUBCASE("a library's name without an end") {
        plugin.dynamic(DT_NEEDED).d_un.d_val = 1 << 30;
    }
    SUBCASE("versions elsewhere") {
        plugin.dynamic(DT_VERNEED).d_un.d_val = 1 << 30;
    }
    const Inspection inspection = plugin.inspect();
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->code == RejectCode::malformed_elf);
}

TEST_CASE("a file that the loader would read in another way than it was judged is malformed") {
    ChangedPlugin plugin;
    SUBCASE("a segment in the place of another") {
        plugin.segment(PT_LOAD, PF_X).p_vaddr = plugin.segment(PT_LOAD).p_vaddr;
    }
    SUBCASE("segments out of order") {
        plugin.segment(PT_LOAD).p_vaddr += std::uint64_t{1} << 30;
        plugin.segment(PT_LOAD).p_vaddr += std::uint64_t{1} << 30;
    }
    SUBCASE("a segment that reaches into the page of another, which holds other bytes there") {
        plugin.segment(PT_LOAD, PF_X).p_vaddr -= 64;
    }
    SUBCASE("a segment that ends beyond all addresses") {
        plugin.segment(PT_LOAD, PF_W).p_memsz = ~std::uint64_t{0} - 4096;
    }
    SUBCASE("two dynamic sections, of which the loader takes the last") {
        plugin.segment(PT_GNU_EH_FRAME).p_type = PT_DYNAMIC;
    }
    const Inspection inspection = plugin.inspect();
    REQUIRE(inspection.rejection);
    CHECK(inspection.rejection->code == RejectCode::malformed_elf);
}

TEST_CASE("no change of bytes in a real plugin does more than change the verdict") {
    const std::uint32_t seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::string sound = content_of(fixtures / "libgood.so");
    const TemporaryDirectory directory;
    for (int round = 0; round < 2000; ++round) {
        std::string bytes = sound;
        for (int change = 0; change < 1 + round % 8; ++change) {
            // Most of what inspection reads lies at the beginning.
            bytes[random() % (round % 2 == 0 ? bytes.size() : 4096)] = static_cast<char>(random());
        }
        const Inspection inspection = inspect(directory.write("libacme.so", bytes));
        CHECK((inspection.rejection.has_value() || inspection.note.has_value()));
    }
}

TEST_CASE("a file that names no class or no byte order is none of this machine") {
    for (const size_t field : {EI_CLASS, EI_DATA}) {
        ElfFile file = sound_file();
        file.header.e_ident[field] = 0;
        CHECK(code_of(file.bytes()) == RejectCode::wrong_machine);
    }
}

TEST_CASE("notes are padded to 8 bytes where their segment is aligned so, and else to 4") {
    const auto segment = [](std::size_t alignment, const std::string &id) {
        std::string bytes;
        const auto note = [&](std::string name, std::uint32_t type, const std::string &payload) {
            name += '\0';
            const Elf64_Nhdr header = {static_cast<Elf64_Word>(name.size()), static_cast<Elf64_Word>(payload.size()),
                                       type};
            bytes.append(reinterpret_cast<const char *>(&header), sizeof header);
            for (const std::string &part : {name, payload}) {
                bytes += part;
                bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
            }
        };
        note("else", NT_GNU_BUILD_ID, "x"); // 12 + 5 bytes, and one
        note("GNU", NT_GNU_BUILD_ID + 1, "no");
        note("GNU", NT_GNU_BUILD_ID, id);
        return bytes;
    };
    for (const std::size_t alignment : {0u, 1u, 2u, 4u, 7u, 9u, 16u, 64u}) {
        CAPTURE(alignment);
        CHECK(find_build_id(segment(4, "\x01\xab"), alignment) == "01ab");
        CHECK(find_build_id(segment(8, "\x01\xab"), alignment) != "01ab");
    }
    CHECK(find_build_id(segment(8, "\x01\xab"), 8) == "01ab");
    CHECK(find_build_id(segment(4, "\x01\xab"), 8) != "01ab");
    // A build id may have up to 64 bytes.
    CHECK(find_build_id(segment(4, std::string(64, '\x0f')), 4).size() == 128);
    CHECK(find_build_id(segment(4, std::string(65, '\x0f')), 4).size() == 128);
}

TEST_CASE("a note that ends with its segment is one, and one that does not is none") {
    std::string bytes;
    const Elf64_Nhdr header = {4, 2, NT_GNU_BUILD_ID};
    bytes.append(reinterpret_cast<const char *>(&header), sizeof header);
    bytes += std::string("GNU\0\x01\xab", 6);
    CHECK(find_build_id(bytes, 4) == "01ab"); // without padding after it
    CHECK(find_build_id(bytes.substr(0, bytes.size() - 1), 4).empty());
    CHECK(find_build_id(bytes.substr(0, sizeof header - 1), 4).empty());
    CHECK(find_build_id("", 4).empty());
}
