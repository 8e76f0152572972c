// What plugin-pack does, one function for each command. They print what came of it and return the exit code; what goes
// wrong they throw.
#pragma once

#include "package.hpp"
#include "request.hpp"

namespace opdock::plugin_pack {

int patch(const Request &request);
int unpatch(const Request &request);
int verify(const Request &request);
int inspect(const Request &request);
int import_flagscale(const Request &request);

// The package that is asked about, by keys that are asked for or trusted. `trust` lives as long as the result.
OpenedPackage open_requested(const Request &request, Trust &trust);

// "a, b"
std::string joined(const std::vector<std::string> &words);

} // namespace opdock::plugin_pack
