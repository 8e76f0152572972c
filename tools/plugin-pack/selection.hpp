// Selection of a package if the command line names none.
#pragma once

#include <string>

#include "request.hpp"

namespace opdock::plugin_pack {

// The newest of the packages in the folders for plugins that are for this device, task and these backends, and whose
// commits are in the repositories. If there is none, throws cli::Failure with the obstacle for each package.
std::string find_package(const Request &request);

} // namespace opdock::plugin_pack
