// A plugin.json.
#include <algorithm>
#include <charconv>
#include <string>

#include "input.hpp"
#include "inspect/manifest.hpp"
#include "message_place.hpp"
#include "text/error.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

const std::string path = "/opt/acme/plugin.json";

void check_path(const std::string &found, bool required) {
    require(!found.empty() || !required, "a manifest names a library");
    require(found.empty() || found.front() == '/', "paths are absolute when the manifest's is");
    require(found.find('\0') == std::string::npos, "a path goes to the system whole");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = opdock::fuzz::text_of(data, size);
    try {
        const Manifest manifest = parse_manifest(text, path);
        check_path(manifest.library, true);
        check_path(manifest.tune, false);
        check_path(manifest.signature, false);
        require(manifest.digest == sha256_of(text), "the digest is the text's");
        for (const std::string &warning : manifest.warnings) {
            opdock::fuzz::check_place(warning, path, text);
        }
    } catch (const Error &error) {
        require(error.status() == OPDOCK_LOAD_FAILED, "a wrong manifest is a plugin that does not load");
        opdock::fuzz::check_place(error.what(), path, text);
    }
    return 0;
}
