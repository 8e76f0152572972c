// --csv FILE and --format csv: one row per shape and implementation.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// With a header row. Fields follow RFC 4180 and are empty where a number is unknown; lines end in "\n".
std::string render_csv(const nlohmann::json &document);

// Quoted if necessary. Text that a spreadsheet would take for a formula gets a leading apostrophe.
std::string csv_field(const std::string &text);

} // namespace opdock::plugin_bench
