// Which implementations a request is about.
#pragma once

#include <string>
#include <vector>

#include "cases.hpp"
#include "opdock/opdock.hpp"
#include "request.hpp"

namespace opdock::plugin_check {

// By op, then by implementation. Throws cli::Failure for a file that was not taken, and for names that nothing has.
std::vector<Subject> subjects_of(const Host &host, const Request &request);

} // namespace opdock::plugin_check
