// --csv FILE and --format csv: a row for each shape and implementation.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_bench {

// With a head; fields as RFC 4180 has them, empty where a number is not known. Lines end in "\n".
std::string render_csv(const nlohmann::json &document);

// In quotes where it has to be. What a table program would take for a formula begins with an apostrophe.
std::string csv_field(const std::string &text);

} // namespace opdock::plugin_bench
