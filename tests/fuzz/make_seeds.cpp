// Writes the seeds that are not text: shared objects, transcripts of their registrations in plugin-probe, and rows of
// the scan cache. Most are made from the fixtures, so that they follow every change of the formats.
//
//     make-fuzz-seeds PLUGIN-PROBE FOLDER FIXTURE.so...
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "../unit/dynamic_elf_file.hpp"
#include "files/held_directory.hpp"
#include "opdock/abi/note.h"
#include "probe/probe.hpp"
#include "probe/scan.hpp"
#include "probe/scan_cache.hpp"

namespace {

using namespace opdock::core;
namespace fs = std::filesystem;

void write(const fs::path &file, std::string_view bytes) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string_view text_of(const std::vector<std::byte> &bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

// Returns false, with the reason on stderr, if the probe cannot be started.
bool make_seeds(const fs::path &fixture, const std::string &probe, const fs::path &folder) {
    const std::string file = fixture.filename().string();
    const std::string name = fixture.stem().string();
    std::ifstream stream(fixture, std::ios::binary);
    write(folder / "elf" / name, std::string(std::istreambuf_iterator<char>(stream), {}));

    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixture);
    std::string why;
    // No memory limit: the sanitizer that the probe was built with would exceed it.
    const ProbeLimits limits = {std::chrono::seconds(20), 0, 0};
    std::optional<ProbeResult> result = run_probe(probe, *directory, file, limits, false, &why);
    if (!result) {
        std::fprintf(stderr, "make-fuzz-seeds: %s: %s\n", file.c_str(), why.c_str());
        return false;
    }
    write(folder / "probe_protocol" / name, text_of(result->sent));

    LibraryVersions versions;
    Scan scan = look_at(*directory, file, versions);
    if (!scan.rejection) {
        auto judged = judge_probe(*directory, file, limits, std::move(*result));
        if (auto *rejection = std::get_if<Rejection>(&judged)) {
            scan.rejection = std::move(*rejection);
        } else {
            scan.transcript = std::make_shared<const Transcript>(std::move(std::get<Transcript>(judged)));
        }
    }
    scan.identity = {1, 2, 3, 4, 5}; // fixed, or each build would have other seeds
    write(folder / "cache_row" / name, text_of(encode_scan(scan)));
    return true;
}

// Makes files of a few hundred bytes, which libFuzzer can mutate all over within a second; linkers write 16,000.
void make_small_files(const fs::path &folder) {
    using namespace opdock::test;
    const std::string json = OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", "");
    write(folder / "note", ElfFile(note_segment({opdock_note(json)})).bytes());
    write(folder / "note_twice", ElfFile(note_segment({opdock_note(json), opdock_note(json)})).bytes());
    write(folder / "notes_of_others", ElfFile(note_segment({{"GNU", NT_GNU_BUILD_ID, "0123456789abcdef0123"},
                                                            {"GNU", NT_GNU_PROPERTY_TYPE_0, "\1"},
                                                            {"", 0, ""}}))
                                          .bytes());
    write(folder / "versions", file_needing_versions(3, 2, 0));
    write(folder / "versions_weak", file_needing_versions(2, 5, VER_FLG_WEAK));
    write(folder / "symbols", file_with_symbols({"other", "opdock_register"}, 3, false));
    write(folder / "symbols_undefined", file_with_symbols({"one", "two", "two"}, 4, false, SHN_UNDEF));
    write(folder / "symbols_in_a_circle", file_with_symbols({std::string(4000, 'x')}, 0xffffffff, true));
    write(folder / "versions_weak_without_end", file_needing_versions(200, 65535, VER_FLG_WEAK));
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fputs("usage: make-fuzz-seeds PLUGIN-PROBE FOLDER FIXTURE.so...\n", stderr);
        return 2;
    }
    fs::remove_all(argv[2]);
    make_small_files(fs::path(argv[2]) / "elf");
    for (int i = 3; i < argc; ++i) {
        if (!make_seeds(argv[i], argv[1], argv[2])) {
            return 1;
        }
    }
}
