// The implementations that a request is about.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cases.hpp"
#include "request.hpp"

namespace opdock::plugin_check {

// From the document of Host::describe(), by op, then by implementation. Throws cli::Failure for unknown names.
std::vector<Subject> subjects_of(const nlohmann::json &document, const Request &request);

} // namespace opdock::plugin_check
