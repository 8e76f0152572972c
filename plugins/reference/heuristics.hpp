#pragma once

#include "opdock/plugin.hpp"

namespace reference {

// How many vectors of `depth` doubles fit into a second-level cache; at least 1, at most 4096.
std::int64_t panel_rows_for_depth(std::int64_t depth);

// linear_fwd's knob panel_rows.
opdock::Status panel_rows_for_cache(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace reference
