// tvm-ffi makes a plugin for existing modules, without a compiler: a copy of libopdock_tvm_ffi.so with the manifest.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/quantities.hpp"
#include "cli/text_file.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "files/digest.hpp"
#include "inspect/library_place.hpp"
#include "text/bounded_yaml.hpp"
#include "tvm_ffi_manifest.hpp"

namespace opdock::plugin_pack {
namespace {

constexpr std::size_t most_library_bytes = std::size_t{64} << 20;

std::string read_empty_library() {
    const std::filesystem::path here = core::library_directory();
    // Its places after installation and in a build tree.
    for (const char *folder : {OPDOCK_LIBEXEC_FROM_TOOL, "../../libexec"}) {
        const std::filesystem::path file = (here / folder / "opdock/libopdock_tvm_ffi.so").lexically_normal();
        if (::access(file.c_str(), R_OK) == 0) {
            return cli::read_text(file, most_library_bytes);
        }
    }
    throw cli::Failure("libopdock_tvm_ffi.so, the base of these plugins, is not installed beside plugin-pack");
}

// The place of these bytes, which occur exactly once.
std::size_t find_once(const std::string &library, std::string_view bytes) {
    const std::size_t found = library.find(bytes);
    if (found == std::string::npos || library.find(bytes, found + 1) != std::string::npos) {
        throw cli::Failure("libopdock_tvm_ffi.so is not of this version of plugin-pack");
    }
    return found;
}

// Writes the JSON of the note, padded with blanks.
void fill_note(std::string &library, const TvmFfiManifest &manifest) {
    const std::size_t begin = find_once(library, R"({"schema":"opdock.note/1")");
    const std::size_t size = library.find('\0', begin) - begin;
    auto note = nlohmann::ordered_json::parse(library.substr(begin, size));
    std::string devices;
    for (const std::string &device : manifest.devices) {
        devices += (devices.empty() ? "" : ",") + device;
    }
    note["id"] = manifest.plugin;
    note["version"] = manifest.version;
    note["vendor"] = manifest.vendor;
    note["devices"] = devices;
    std::string text = note.dump();
    if (text.size() > size) {
        throw cli::Failure("the plugin's id, version, vendor and devices are too long for a note");
    }
    text.resize(size, ' ');
    library.replace(begin, size, text);
}

void fill_contents(std::string &library, TvmFfiManifest &manifest) {
    tvm_ffi::ContentsWriter writer;
    writer(manifest.contents);
    const std::vector<std::byte> bytes = writer.take();
    if (bytes.size() > tvm_ffi::room_bytes) {
        throw cli::Failure(fmt::format(
            "the manifest takes {} bytes, more than a plugin has room for ({}); split it into several plugins",
            bytes.size(), tvm_ffi::room_bytes));
    }
    const auto size = static_cast<std::uint32_t>(bytes.size());
    const std::size_t begin = find_once(library, {tvm_ffi::mark, sizeof tvm_ffi::mark}) + sizeof tvm_ffi::mark;
    if (begin + sizeof size + bytes.size() > library.size()) {
        throw cli::Failure("libopdock_tvm_ffi.so is truncated");
    }
    library.replace(begin, sizeof size, reinterpret_cast<const char *>(&size), sizeof size);
    library.replace(begin + sizeof size, bytes.size(), reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

// Different plugins need different build ids.
void fill_build_id(std::string &library) {
    const std::string_view empty = tvm_ffi::empty_build_id;
    const std::size_t begin = find_once(library, empty);
    const core::Digest digest = core::sha256_of(library);
    static_assert(sizeof digest >= tvm_ffi::empty_build_id.size());
    library.replace(begin, empty.size(), reinterpret_cast<const char *>(digest.data()), empty.size());
}

} // namespace

int tvm_ffi_plugin(const Request &request) {
    cli::check_output(request.out, request.force);
    TvmFfiManifest manifest =
        parse_tvm_ffi_manifest(cli::read_text(request.subject, core::most_yaml_bytes + 1), request.subject);
    std::string library = read_empty_library();
    fill_note(library, manifest);
    fill_contents(library, manifest);
    fill_build_id(library);
    cli::write_output(request.out, request.force, library);
    std::cout << cli::printable(request.out) << ": "
              << cli::counted(manifest.contents.implementations.size(), "implementation") << '\n';
    return cli::exit_fine;
}

} // namespace opdock::plugin_pack
