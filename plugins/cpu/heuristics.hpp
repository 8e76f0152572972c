// The config for shapes nobody tuned.
#pragma once

#include "opdock/plugin.hpp"

namespace cpu {

// For every implementation of this plugin: they share their knobs (schedule.hpp).
opdock::Status heuristic(const opdock::Problem &problem, int64_t *knobs);

} // namespace cpu
