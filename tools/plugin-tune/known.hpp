// The commands about what the tuning database has: list and forget. Both look at the file alone, and open no host: an
// entry may be of a plugin or a device that is not there any more.
#pragma once

#include "request.hpp"

namespace opdock::plugin_tune {

int list(const Request &request);
int forget(const Request &request);

} // namespace opdock::plugin_tune
