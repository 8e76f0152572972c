// How plugin-pack ends, beside the codes of all tools (cli/exit.hpp).
#pragma once

namespace opdock::plugin_pack {

inline constexpr int exit_not_trusted = 3; // the package is damaged, or by nobody who is trusted
inline constexpr int exit_conflict = 4;    // a patch does not fit
inline constexpr int exit_older = 5;       // a newer one is there already

} // namespace opdock::plugin_pack
