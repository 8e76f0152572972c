#include "plugin_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/exit.hpp"
#include "inspect/inspect.hpp"
#include "inspect/manifest.hpp"

namespace opdock::plugin_sign {

PluginFiles plugin_files(const std::string &path) {
    PluginFiles files;
    files.library = path;
    if (path.ends_with(".json")) {
        core::Manifest manifest = core::read_manifest(path);
        files.manifest = path;
        files.library = manifest.library;
        files.signed_files.manifest = manifest.digest;
        files.signed_files.signature = manifest.signature;
    }
    files.signed_files.name = std::filesystem::path(files.library).filename().string();
    files.signed_files.library = core::sha256_of(core::PluginFile(std::filesystem::path(files.library)));
    if (files.signed_files.signature.empty()) {
        files.signed_files.signature = files.library + ".sig";
    }
    return files;
}

void refuse_no_plugin(const PluginFiles &files) {
    // Excludes reasons that depend on the machine or the version of opdock: plugins may be signed anywhere.
    constexpr std::array no_plugin = {core::RejectCode::not_elf,        core::RejectCode::truncated,
                                      core::RejectCode::malformed_elf,  core::RejectCode::no_note,
                                      core::RejectCode::malformed_note, core::RejectCode::too_large};
    core::LibraryVersions versions;
    const core::Inspection inspection = core::inspect(files.library, versions);
    if (inspection.rejection &&
        std::find(no_plugin.begin(), no_plugin.end(), inspection.rejection->code) != no_plugin.end()) {
        throw cli::Failure(files.library + ": not signed (" + core::code_text(inspection.rejection->code) +
                           "): " + inspection.rejection->message +
                           "\nExpected a plugin's shared object, or a plugin.json that names one.");
    }
}

} // namespace opdock::plugin_sign
