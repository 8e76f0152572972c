// The document opdock.plugin-bench/1 as readable text. Pure: the same document gives the same text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_bench {

// The ceilings, each shape with its implementations, fastest first, the cost of calls, and what was left out.
std::string render_report(const nlohmann::json &document, const cli::Page &page);

// The changes and their size; `path` is the file of the earlier document.
std::string render_comparison(const nlohmann::json &comparison, const nlohmann::json &document, const std::string &path,
                              const cli::Page &page);

} // namespace opdock::plugin_bench
