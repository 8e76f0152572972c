// The files of a package that are no patches: what a user gives becomes what is installed.
//
//     libacme/libacme.so           each plugin in a folder of its own
//     libacme/acme.tune.yaml
//     libacme/plugin.json
//     libacme/libacme.so.sig       of library and plugin.json, by who signs the package
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
    // Tune files that a host finds beside a plugin and that do not go in, each with the library's name.
    std::vector<std::pair<std::string, std::string>> left_tune_files;
};

// Of files: their kinds and paths. Throws cli::Failure for what cannot be read, is no plugin, or belongs to none.
Attachments read_attachments(const std::vector<std::pair<std::string, std::string>> &files);

// With a signature of each plugin by this key, in the place of an earlier one by it.
std::vector<Attachment> with_signatures(std::vector<Attachment> attachments, const keys::SecretKey &key);

} // namespace opdock::plugin_pack
