// JSON that came with a package or lies among installed ones.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "text/bounded_json.hpp"

namespace opdock::plugin_pack {

// Throws core::Error whose message begins with NAME:LINE:COLUMN when it is no JSON, has a key twice or is beyond the
// limits.
void check_json(std::string_view text, const std::string &name, const core::JsonLimits &limits);

// The same, and what it says.
nlohmann::json parse_json(std::string_view text, const std::string &name, const core::JsonLimits &limits);

} // namespace opdock::plugin_pack
