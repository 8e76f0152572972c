// Whether the libraries and symbols that a plugin uses are there, without running any of its code.
#pragma once

#include <filesystem>
#include <optional>

#include "files/reject.hpp"

namespace opdock::core {

// For `plugin-ls --check`: starts the system's dynamic loader, which lists the libraries it would take, and reads them
// all. The file must have passed inspection and name no auditors: those would run.
std::optional<Rejection> judge_dependencies(const std::filesystem::path &path);

} // namespace opdock::core
