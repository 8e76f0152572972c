// SPDX-License-Identifier: Apache-2.0
// Configs for shapes nobody tuned.
#pragma once

#include "opdock/plugin.hpp"

namespace example {

// For silu: one value for each of its knobs, in the order in which plugin.cpp declares them.
opdock::Status pick_block(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace example
