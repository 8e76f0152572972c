// Configs for shapes nobody tuned.
#pragma once

#include "opdock/plugin.hpp"

namespace acme {

// For all ops of this plugin: they have the one knob, `block`.
opdock::Status pick_block(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace acme
