#include "plugin_files.hpp"

#include <filesystem>

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

} // namespace opdock::plugin_sign
