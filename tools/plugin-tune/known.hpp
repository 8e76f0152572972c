// The commands for the contents of the tuning database: list and forget. Both read the file alone, and open no host: an
// entry may belong to a plugin or a device that no longer exists.
#pragma once

#include "request.hpp"

namespace opdock::plugin_tune {

int list(const Request &request);
int forget(const Request &request);

} // namespace opdock::plugin_tune
