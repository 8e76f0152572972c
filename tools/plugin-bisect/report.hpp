// The result of a search as readable text.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_bisect {

// "bad   31 of 50   16 of 64 suspects as before   p = 0.0003   12 s"
std::string trial_text(const nlohmann::json &trial, size_t suspects);

// Renders the document of --json.
std::string render_report(const nlohmann::json &document, const cli::Page &page);

} // namespace opdock::plugin_bisect
