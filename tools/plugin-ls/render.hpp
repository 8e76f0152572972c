// JSON of schema opdock.plugin-ls/1 as text for people. Pure: the same document is the same text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_ls {

using cli::Page;

// Plugins and chains on one screen, ops with the same chains together; `verbose` shows every op as render_op does, and
// vendors. `narrowed`: options left plugins out of the document.
std::string render_screen(const nlohmann::json &document, bool verbose, const Page &page, bool narrowed = false);

// `verbose` adds the build of each; `idle` are the plugins that serve nothing, each with an op that tells why.
std::string render_plugins(const nlohmann::json &plugins, bool verbose, const Page &page,
                           const std::map<std::string, std::string> &idle = {});

// What went wrong while plugins were searched, a paragraph each; "" when nothing did.
std::string render_problems(const nlohmann::json &problems);

std::string render_vendors(const nlohmann::json &vendors, const Page &page);

// One element of "ops": signature, implementations, chains. `verbose` adds what implementations declare.
std::string render_op(const nlohmann::json &op, bool verbose, const Page &page);

// What opdock_explain returned.
std::string render_why(const nlohmann::json &decision, const Page &page);

std::string render_paths(const nlohmann::json &paths, const Page &page);
std::string render_policy(const nlohmann::json &policy, const Page &page);
// Every variable of opdock: whether it is set, and to what.
std::string render_variables(const nlohmann::json &variables, const Page &page);

// What opdock_counters returned: implementations that calls came to.
std::string render_counters(const nlohmann::json &counters, const Page &page);

// What opdock_devices returned.
std::string render_devices(const nlohmann::json &devices, const Page &page);

// What opdock_check_file returned.
std::string render_check(const nlohmann::json &verdict, const Page &page);

} // namespace opdock::plugin_ls
