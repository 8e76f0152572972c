// The files that belong to a plugin named on the command line.
#pragma once

#include <string>

#include "trust/trust.hpp"

namespace opdock::plugin_sign {

struct PluginFiles {
    std::string library;
    std::string manifest; // "" when the library was named itself
    core::SignedFiles signed_files;
};

// `path` is a library, or a plugin.json that names one. Reads both.
PluginFiles plugin_files(const std::string &path);

// Throws cli::Failure for what no host would ever take for a plugin, on whatever machine: it is signed by mistake.
void refuse_no_plugin(const PluginFiles &files);

} // namespace opdock::plugin_sign
