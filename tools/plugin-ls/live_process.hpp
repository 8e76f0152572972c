// A running program that was started with PLUGIN_LIVE=1, asked for what its host knows.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_ls {

// Whether the text can name a process: "1204", or "1204.2" for the second of its hosts.
bool is_process_name(const std::string &text);

// The answer to a question as host/src/host/host_live.cpp has them. Throws cli::Failure where the process cannot be
// asked, and with the host's message where it refuses.
nlohmann::json ask_process(const std::string &name, const nlohmann::json &question);

} // namespace opdock::plugin_ls
