// Configs for shapes that were not tuned.
#pragma once

#include "opdock/plugin.hpp"

namespace acme {

// For all ops of this plugin: their only knob is `block`.
opdock::Status pick_block(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace acme
