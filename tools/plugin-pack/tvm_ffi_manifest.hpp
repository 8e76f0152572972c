// The manifest of a plugin for modules of tvm-ffi: YAML that maps their functions to ops. docs/tvm-ffi.md describes the
// fields.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "contents.hpp"

namespace opdock::plugin_pack {

struct TvmFfiManifest {
    std::string plugin, version, vendor; // for the note
    std::set<std::string> devices;       // of the implementations
    tvm_ffi::Contents contents;
};

// `name` is the file's, for messages. Throws core::Error if the text is not YAML, and cli::Failure with one line per
// fault: "acme.yaml:7:15: ...".
TvmFfiManifest parse_tvm_ffi_manifest(std::string_view text, const std::string &name);

} // namespace opdock::plugin_pack
