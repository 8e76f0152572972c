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

// "2 ops, 7 configs, 1 product" of a tune file as opdock prints it. Pinned configs count as well.
std::string contents_of(const std::string &yaml);

// Renames ops of a tune file as opdock prints it. Leaves out *nameless, ops that keep a name that no op may have.
// Throws cli::Failure for an op that it does not have, with near misses, and when two ops would have one name.
std::string rename_ops(const std::string &yaml, const std::vector<Named> &renames, std::vector<std::string> *nameless);

} // namespace opdock::plugin_tune
