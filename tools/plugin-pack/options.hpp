// What each command of plugin-pack has to be given beside what its row says. All throw cli::UsageError.
#pragma once

#include "request.hpp"

namespace opdock::plugin_pack {

// Read --backend: with a commit, with one or without, and with one where --3way is given alone.
void read_commits(const cli::CommandLine &line, Request &request);
void read_folders(const cli::CommandLine &line, Request &request);
void read_merged(const cli::CommandLine &line, Request &request);

void check_patch(const cli::CommandLine &line, Request &request);
void check_unpatch(const cli::CommandLine &line, Request &request);
void check_history(const cli::CommandLine &line, Request &request);
void check_keys(const cli::CommandLine &line, Request &request); // who signs what is written

} // namespace opdock::plugin_pack
