// Renders the document opdock.plugin-check/1 (docs/plugin-check-json.md) for people and for build servers. Pure: the
// same document gives the same text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_check {

std::string render_text(const nlohmann::json &document, const cli::Page &page);

// A test suite with a test case for each file and for each implementation of each op.
std::string render_junit(const nlohmann::json &document);

// A single, self-contained page.
std::string render_html(const nlohmann::json &document);

// The requirements of a file: ", needs GCC 3.0, GLIBC 2.34 or newer", or "" if there are none.
std::string needs_text(const nlohmann::json &file);

// For a finding: "; and 4 more, also with f16", or "".
std::string more_text(const nlohmann::json &finding);

// Over all files and ops.
size_t count_findings(const nlohmann::json &document);
// "2 findings", and what was not tried.
std::string verdict_of(const nlohmann::json &document);

// "f32 4.1e-07, bf16 0.0022": the worst relative error of each tuple of dtypes, over its outputs.
std::string worst_text(const nlohmann::json &one);

} // namespace opdock::plugin_check
