// Checks that the libraries and symbols that a plugin uses exist, without running any of its code.
#pragma once

#include <filesystem>
#include <optional>

#include "files/reject.hpp"

namespace opdock::core {

// For `plugin-ls --check`: runs the system's dynamic loader to list the libraries that it would load, and reads all of
// them. The file must have passed inspection and name no auditors, since auditors would be run.
std::optional<Rejection> judge_dependencies(const std::filesystem::path &path);

} // namespace opdock::core
