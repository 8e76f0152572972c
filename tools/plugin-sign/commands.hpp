// The commands of plugin-sign, one function each. They print the result and return the exit code; errors are thrown as
// exceptions.
#pragma once

#include "request.hpp"

namespace opdock::plugin_sign {

int keygen(const Request &request);
int sign(const Request &request);
int verify(const Request &request);
int digest_files(const Request &request);

} // namespace opdock::plugin_sign
