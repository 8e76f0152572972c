// The text of plugin-ls --bug-report.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "machine.hpp"

namespace opdock::plugin_ls {

// One text to paste. `document` is null if the host did not open; then `error` says why.
std::string render_bug_report(const Machine &machine, const nlohmann::json &document, const std::string &error);

} // namespace opdock::plugin_ls
