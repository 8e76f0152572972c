// Renders JSON of schema opdock.plugin-ls/1 as text for people. Pure: the same document gives the same text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/page.hpp"

namespace opdock::plugin_ls {

using cli::Page;

// Plugins and chains on one screen, ops with the same chains together; `verbose` shows vendors, and every op as
// render_op does. `narrowed`: options excluded plugins from the document.
std::string render_screen(const nlohmann::json &document, bool verbose, const Page &page, bool narrowed = false);

// `verbose` adds the build of each; `idle` maps plugins that serve nothing to an op whose --why tells the reason.
std::string render_plugins(const nlohmann::json &plugins, bool verbose, const Page &page,
                           const std::map<std::string, std::string> &idle = {});

// Problems found during the search for plugins, a paragraph each; "" if there are none.
std::string render_problems(const nlohmann::json &problems);

std::string render_vendors(const nlohmann::json &vendors, const Page &page);

// One element of "ops": signature, implementations, chains. `verbose` adds the declarations of implementations.
std::string render_op(const nlohmann::json &op, bool verbose, const Page &page);

// The result of opdock_explain.
std::string render_why(const nlohmann::json &decision, const Page &page);

std::string render_paths(const nlohmann::json &paths, const Page &page);
std::string render_policy(const nlohmann::json &policy, const Page &page);
// Every variable of opdock, with its value if it is set.
std::string render_variables(const nlohmann::json &variables, const Page &page);

// The result of opdock_counters: implementations and their calls.
std::string render_counters(const nlohmann::json &counters, const Page &page);

// The result of opdock_devices.
std::string render_devices(const nlohmann::json &devices, const Page &page);

// The result of opdock_check_file.
std::string render_check(const nlohmann::json &verdict, const Page &page);

} // namespace opdock::plugin_ls
