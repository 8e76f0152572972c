// What plugin-sign does, one function for each command. They print what came of it and return the exit code; what goes
// wrong they throw.
#pragma once

#include "request.hpp"

namespace opdock::plugin_sign {

int keygen(const Request &request);
int sign(const Request &request);
int verify(const Request &request);
int digest_files(const Request &request);

} // namespace opdock::plugin_sign
