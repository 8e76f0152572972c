// Everything that is read from a plugin's file before any of its code runs. The input is the file.
#include <algorithm>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "input.hpp"
#include "inspect/elf.hpp"
#include "inspect/elf_dynamic.hpp"
#include "inspect/elf_notes.hpp"
#include "inspect/inspect.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

// A file in memory; the host opens it by name.
class MemoryFile {
  public:
    MemoryFile() : descriptor_(memfd_create("libfuzzed.so", MFD_CLOEXEC)) { require(descriptor_ >= 0, "a file"); }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile &) = delete;
    MemoryFile &operator=(const MemoryFile &) = delete;

    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
    void hold(const std::uint8_t *data, std::size_t size) const {
        require(ftruncate(descriptor_, 0) == 0, "the file can be emptied");
        require(pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size), "the file can be written");
    }

  private:
    int descriptor_;
};

void check_rejection(RejectCode code, const std::string &message) {
    const std::vector<RejectCode> codes = all_reject_codes();
    require(std::find(codes.begin(), codes.end(), code) != codes.end(), "a rejection has a code");
    require(!message.empty(), "a rejection has a message");
    require(message.size() < 64 * 1024, "a rejection's message can be shown");
}

// Runs one reader on the file, whatever the others do: inspection would stop at the first one that rejects.
template<class Read>
void try_reader(Read read) {
    try {
        read();
    } catch (const Rejected &rejected) {
        check_rejection(rejected.code(), rejected.what());
    }
}

void read_parts(const std::string &path) {
    try_reader([&] {
        const PluginFile file(path);
        const ElfImage image(file);
        try_reader([&] { read_notes(image); });
        try_reader([&] { read_dynamic(image); });
        try_reader([&] { exports_function(image, "opdock_register"); });
        try_reader([&] { defines_symbol(image, "opdock_register"); });
        try_reader([&] { undefined_symbols(image); });
        try_reader([&] { versions_defined(image); });
    });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const MemoryFile file;
    file.hold(data, size);
    // Made anew each time: it remembers libraries of this process, and would grow with every made-up name.
    LibraryVersions versions;
    const Inspection inspection = inspect(file.path(), versions);
    require(inspection.rejection || inspection.note, "a file that is taken has a note");
    if (inspection.rejection) {
        check_rejection(inspection.rejection->code, inspection.rejection->message);
    }
    read_parts(file.path());
    return 0;
}
