// What `plugin-ls --check FILE.so` says of one file.
#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace opdock::core {

// Inspects the file, opens it and looks for its entry, which is not called; nothing stays mapped. {"path", "status":
// "ok" or "rejected", "code", "reason", "note": {...} or null, "build_id"}; code and reason are "" for ok.
nlohmann::json check_file(const std::filesystem::path &path);

} // namespace opdock::core
