#pragma once

#include "opdock/plugin.hpp"

namespace reference {

// The number of vectors of `depth` doubles that fit into a second-level cache; at least 1, at most 4096.
std::int64_t panel_rows_for_depth(std::int64_t depth);

// Chooses linear_fwd's knob panel_rows.
opdock::Status panel_rows_for_cache(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace reference
