#pragma once

#include "opdock/plugin.hpp"

namespace reference {

// linear_fwd's knob panel_rows.
opdock::Status panel_rows_for_cache(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace reference
