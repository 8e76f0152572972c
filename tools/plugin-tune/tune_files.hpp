// The commands for tune files: export, import, merge, convert.
#pragma once

#include <string>
#include <vector>

#include "request.hpp"

namespace opdock::plugin_tune {

int export_results(const Request &request);
int import_results(const Request &request);
int merge(const Request &request);
int convert(const Request &request);

// "2 ops, 7 configs, 1 product" for a tune file as opdock prints it. Pinned configs count as well.
std::string contents_of(const std::string &yaml);

// Renames ops of a tune file as opdock prints it. Leaves out *nameless, ops that keep an invalid name. Throws
// cli::Failure, with near misses, for an op that is not in the file, and if two ops would get the same name.
std::string rename_ops(const std::string &yaml, const std::vector<Named> &renames, std::vector<std::string> *nameless);

} // namespace opdock::plugin_tune
