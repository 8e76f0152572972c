// Exit codes of plugin-pack, in addition to those of all tools (cli/exit.hpp).
#pragma once

namespace opdock::plugin_pack {

inline constexpr int exit_not_trusted = 3; // the package is damaged, or not signed by a trusted key
inline constexpr int exit_conflict = 4;    // a patch does not fit
inline constexpr int exit_older = 5;       // a newer package is already there

} // namespace opdock::plugin_pack
