// What went wrong, as a JSON document of a tool.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace opdock::op_call {

// By the name of the host's status; what the tool itself found wrong has names of its own.
std::string status_of(const std::exception &error);

// {"status", "message"}
nlohmann::json failure_json(const std::exception &error);

// {"schema": "opdock.TOOL.error/1", "error": {"status", "message"}}
nlohmann::json error_document(const std::string &tool, const std::exception &error);

// As cli::run_tool. Who asked for JSON gets JSON, whatever happens, also when the command line itself is wrong; the
// sentence goes to stderr as always.
int run_json_tool(const std::string &tool, const std::vector<std::string> &arguments,
                  const std::function<int(const std::vector<std::string> &arguments)> &execute);

} // namespace opdock::op_call
