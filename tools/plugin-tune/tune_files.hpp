// The commands about tune files: export, import, merge, convert.
#pragma once

#include <string>
#include <vector>

#include "request.hpp"

namespace opdock::plugin_tune {

int export_results(const Request &request);
int import_results(const Request &request);
int merge(const Request &request);
int convert(const Request &request);

// Renames ops of a tune file as opdock prints it. Throws cli::Failure for an op that it does not have, with near
// misses, and when two ops would have one name.
std::string rename_ops(const std::string &yaml, const std::vector<Named> &renames);

// Throws cli::Failure when there is a file that `force` does not allow to be overwritten. "" is standard output.
void check_output(const std::string &path, bool force);

// To that file, whole or not at all, or to standard output.
void write_output(const std::string &path, bool force, const std::string &text);

} // namespace opdock::plugin_tune
