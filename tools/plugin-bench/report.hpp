// The document opdock.plugin-bench/1 as text for people. Pure: the same document is the same text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_bench {

// The ceilings, each shape with its implementations, the fastest first, what calls cost, and what was left out.
std::string render_report(const nlohmann::json &document, const cli::Page &page);

// What changed, and by how much; `path` is where the earlier document was.
std::string render_comparison(const nlohmann::json &comparison, const nlohmann::json &document, const std::string &path,
                              const cli::Page &page);

} // namespace opdock::plugin_bench
