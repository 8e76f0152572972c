// Default config for shapes that were not tuned.
#pragma once

#include "opdock/plugin.hpp"

namespace cpu {

// Used by every implementation of this plugin: they share their knobs (schedule.hpp).
opdock::Status heuristic(const opdock::Problem &problem, int64_t *knobs);

} // namespace cpu
