// The files of a plugin named on the command line.
#pragma once

#include <string>

#include "trust/trust.hpp"

namespace opdock::plugin_sign {

struct PluginFiles {
    std::string library;
    std::string manifest; // "" if the command line names the library
    core::SignedFiles signed_files;
};

// `path` is a library, or a plugin.json that names one. Reads both.
PluginFiles plugin_files(const std::string &path);

// Throws cli::Failure for a file that no host on any machine would accept as a plugin: signing it is a mistake.
void refuse_no_plugin(const PluginFiles &files);

} // namespace opdock::plugin_sign
