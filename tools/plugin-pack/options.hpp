// Checks of plugin-pack's commands beyond those of their rows. All throw cli::UsageError.
#pragma once

#include "request.hpp"

namespace opdock::plugin_pack {

// Read --backend: read_commits requires a commit, read_folders allows one, read_merged requires one with --3way only.
void read_commits(const cli::CommandLine &line, Request &request);
void read_folders(const cli::CommandLine &line, Request &request);
void read_merged(const cli::CommandLine &line, Request &request);

void check_patch(const cli::CommandLine &line, Request &request);
void check_unpatch(const cli::CommandLine &line, Request &request);
void check_history(const cli::CommandLine &line, Request &request);
void check_keys(const cli::CommandLine &line, Request &request); // the signer of packages that are written

} // namespace opdock::plugin_pack
