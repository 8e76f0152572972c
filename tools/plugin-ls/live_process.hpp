// Queries to the host of a running program that was started with PLUGIN_LIVE=1.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::plugin_ls {

// True if the text can name a process: "1204", or "1204.2" for the second of its hosts.
bool is_process_name(const std::string &text);

// Returns the answer to a question in the format of host/src/host/host_live.cpp. Throws cli::Failure if the process
// cannot be reached, and with the host's message if the host refuses.
nlohmann::json ask_process(const std::string &name, const nlohmann::json &question);

} // namespace opdock::plugin_ls
