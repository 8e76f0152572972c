// Which package is meant where none is named.
#pragma once

#include <string>

#include "request.hpp"

namespace opdock::plugin_pack {

// The newest of those that lie where packages are installed, are for this device, task and these backends, and whose
// commits the repositories have. Throws cli::Failure with what stands in the way of each when there is none.
std::string find_package(const Request &request);

} // namespace opdock::plugin_pack
