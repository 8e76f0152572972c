// What `plugin-ls --check FILE.so` says of one file.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace opdock::core {

// Judges the file, and whether the libraries and symbols it uses are there, without running any of its code. {"path",
// "status": "ok" or "rejected", "code", "reason", "note": {...} or null, "warnings": [...], "build_id"}; code and
// reason are "" for ok. What hosts learnt of the file is in `cache_folder`, "" for none: that it was changed since, or
// what became of it when it was tried, is a warning.
nlohmann::json check_file(const std::filesystem::path &path, const std::string &cache_folder);

} // namespace opdock::core
