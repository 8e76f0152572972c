// Renders the document opdock.plugin-tune/1 as text for people. Pure: the same document gives the same text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_tune {

// The best config against the default for each shape, refused and wrong ones, and the place where results are kept.
std::string render_report(const nlohmann::json &document, const cli::Page &page);

// The result of one shape, in a few words: "1.25x faster with block=256, in 3.1 s".
std::string outcome_text(const nlohmann::json &shape);

// "block=256 fast=1"
std::string config_text(const nlohmann::json &config);

} // namespace opdock::plugin_tune
