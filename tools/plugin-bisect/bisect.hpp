// The search for one command, from its first run to the document with the result.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "request.hpp"

namespace opdock::plugin_bisect {

// Returns the document described in docs/plugin-bisect-json.md. Reports progress on stderr. Throws cli::Failure if the
// command cannot be run, or if a host or the state cannot be used.
nlohmann::json bisect(const Request &request);

} // namespace opdock::plugin_bisect
