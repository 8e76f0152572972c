// The search of one command, from its first run to the document that says what came of it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "request.hpp"

namespace opdock::plugin_bisect {

// As docs/plugin-bisect-json.md has it. Tells on stderr how far it is. Throws cli::Failure where the command cannot be
// run, or a host or the state cannot be used.
nlohmann::json bisect(const Request &request);

} // namespace opdock::plugin_bisect
