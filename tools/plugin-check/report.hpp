// The document opdock.plugin-check/1 (docs/plugin-check-json.md) for people and for build servers. Pure: the same
// document is the same text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_check {

std::string render_text(const nlohmann::json &document, const cli::Page &page);

// A test suite with a test case for each file and each implementation of each op.
std::string render_junit(const nlohmann::json &document);

// One page that needs nothing else.
std::string render_html(const nlohmann::json &document);

// What a file needs: ", needs GCC 3.0, GLIBC 2.34 or newer", or "" for nothing.
std::string needs_text(const nlohmann::json &file);

// Of a finding: "; and 4 more, also with f16", or "".
std::string more_text(const nlohmann::json &finding);

// Of all files and ops.
size_t count_findings(const nlohmann::json &document);
// "2 findings", and what of it was not tried.
std::string verdict_of(const nlohmann::json &document);

// "f32 4.1e-07, bf16 0.0022": the worst relative error of each tuple of dtypes, over its outputs.
std::string worst_text(const nlohmann::json &one);

} // namespace opdock::plugin_check
