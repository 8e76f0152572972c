// plugin.json: describes a plugin whose library, tune file or signature are elsewhere.
//
//     {"library": "lib/libacme.so", "tune": "share/acme.tune.yaml", "signature": "lib/libacme.so.sig"}
//
// Paths are relative to the manifest's directory. Only `library` is required.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/digest.hpp"

namespace opdock::core {

struct Manifest {
    // Absolute if the manifest's path is; "" if not given.
    std::string library;
    std::string tune;
    std::string signature;
    Digest digest{}; // SHA-256 of the manifest's text
    // "FILE:LINE:COLUMN: unknown field 'x'; did you mean 'y'?"
    std::vector<std::string> warnings;
};

// `path` names the manifest in messages and determines the directory. Throws Error(OPDOCK_LOAD_FAILED).
Manifest parse_manifest(std::string_view text, const std::string &path);

Manifest read_manifest(const std::string &path);

} // namespace opdock::core
