// The files of a package that are not patches: from the user's files to the installed ones.
//
//     libacme/libacme.so           each plugin in a folder of its own
//     libacme/acme.tune.yaml
//     libacme/plugin.json
//     libacme/libacme.so.sig       of library and plugin.json, by the signer of the package
//     policy.yaml, LICENSE
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "package.hpp"

namespace opdock::plugin_pack {

struct Attachments {
    std::vector<Attachment> list;
    std::optional<Abi> abi;
    // Tune files beside plugins, which a host would find, that are not in the package; each with the library's name.
    std::vector<std::pair<std::string, std::string>> left_tune_files;
};

// `files`: kinds and paths. Throws cli::Failure for a file that cannot be read, is no plugin, or belongs to none.
Attachments read_attachments(const std::vector<std::pair<std::string, std::string>> &files);

// Adds a signature of each plugin by this key, or replaces an earlier one by the same key.
std::vector<Attachment> with_signatures(std::vector<Attachment> attachments, const keys::SecretKey &key);

} // namespace opdock::plugin_pack
