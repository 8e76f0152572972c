// The manifest of a plugin for modules of tvm-ffi: YAML that says what their functions implement. docs/tvm-ffi.md has
// the fields.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "contents.hpp"

namespace opdock::plugin_pack {

struct TvmFfiManifest {
    std::string plugin, version, vendor; // of the note
    std::set<std::string> devices;       // of the implementations
    tvm_ffi::Contents contents;
};

// `name` is the file's, for messages. Throws core::Error for what is no YAML, and cli::Failure that has a line for each
// fault: "acme.yaml:7:15: ...".
TvmFfiManifest parse_tvm_ffi_manifest(std::string_view text, const std::string &name);

} // namespace opdock::plugin_pack
