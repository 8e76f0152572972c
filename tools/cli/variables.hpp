// Environment variables that a tool and its hosts read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

// "PLUGIN_" until use_variable_prefix() is called.
const std::string &variable_prefix();
// Throws UsageError for an invalid prefix. Call it before other threads run.
void use_variable_prefix(const std::string &prefix);

// "PLUGIN_STRICT" for "STRICT"; with the prefix TE_FL_, TE_FL_PLUGIN_MODULES for "MODULES".
std::string variable_name(std::string_view stem);
std::vector<std::string> variable_names();

} // namespace opdock::cli
