// Errors as JSON documents of a tool.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace opdock::op_call {

// The name of the host's status; errors found by the tool itself have names of their own.
std::string status_of(const std::exception &error);

// {"status", "message"}
nlohmann::json failure_json(const std::exception &error);

// {"schema": "opdock.TOOL.error/1", "error": {"status", "message"}}
nlohmann::json error_document(const std::string &tool, const std::exception &error);

// Like cli::run_tool. If JSON was requested, any error is also printed as JSON, even one in the command line itself;
// the sentence goes to stderr as always.
int run_json_tool(const std::string &tool, const std::vector<std::string> &arguments,
                  const std::function<int(const std::vector<std::string> &arguments)> &execute);

} // namespace opdock::op_call
