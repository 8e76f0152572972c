// JSON of schema opdock.plugin-ls/1 as text for people. Pure: the same document is the same text.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/paint.hpp"

namespace opdock::plugin_ls {

using cli::Paint;

// Plugins and chains on one screen; `verbose` shows every op as render_op does.
std::string render_screen(const nlohmann::json &document, bool verbose, const Paint &paint);

std::string render_plugins(const nlohmann::json &plugins, const Paint &paint);

// One element of "ops": signature, implementations, chains.
std::string render_op(const nlohmann::json &op, const Paint &paint);

// What opdock_explain returned.
std::string render_why(const nlohmann::json &decision, const Paint &paint);

std::string render_paths(const nlohmann::json &paths, const Paint &paint);
std::string render_policy(const nlohmann::json &policy, const Paint &paint);

// What opdock_check_file returned.
std::string render_check(const nlohmann::json &verdict, const Paint &paint);

} // namespace opdock::plugin_ls
