// The environment variables that a tool and its hosts read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

// What --prefix says, as every tool has it that opens a host; parse_arguments takes it.
inline constexpr const char *prefix_help = "of environment variables, as the program chose it: \"TE_FL_\"";

// "PLUGIN_" until use_variable_prefix.
const std::string &variable_prefix();
// Throws UsageError for what no prefix can be. Before other threads run.
void use_variable_prefix(const std::string &prefix);

// "PLUGIN_STRICT" for "STRICT"; with the prefix TE_FL_, TE_FL_PLUGIN_MODULES for "MODULES".
std::string variable_name(std::string_view stem);
std::vector<std::string> variable_names();

} // namespace opdock::cli
