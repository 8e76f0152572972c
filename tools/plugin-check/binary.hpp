// Requirements on a plugin's file, whatever it computes.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace opdock::plugin_check {

// {"path", "status", "id", "version", "vendor", "abi": [major, minor], "build_id", "needs": {"GLIBC": "2.34"},
// "libraries": [...], "findings": [{"check", "message"}], "warnings": [...]}. Runs none of the file's code.
// `newest_glibc`: the newest version that the file may need, or "". Throws opdock::Error.
nlohmann::json check_binary(const std::string &path, const std::string &newest_glibc);

// The same, from the output of opdock_check_file.
nlohmann::json judge_binary(const nlohmann::json &verdict, const std::string &newest_glibc);

} // namespace opdock::plugin_check
