// What may stand on the command line of plugin-pack, and its help.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "request.hpp"

namespace opdock::plugin_pack {

const std::vector<cli::Command<Action>> &commands();

cli::CommandLine describe_options(Request &request);

// Of the command that the first of `words` is, else of all.
std::string help_text(const std::vector<std::string> &words = {});

} // namespace opdock::plugin_pack
