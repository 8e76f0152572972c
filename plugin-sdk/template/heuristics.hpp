// SPDX-License-Identifier: Apache-2.0
// Configs for shapes that were not tuned.
#pragma once

#include "opdock/plugin.hpp"

namespace example {

// For silu: one value for each of its knobs, in the order of their declaration in plugin.cpp.
opdock::Status pick_block(const opdock::Problem &problem, std::int64_t *knobs);

} // namespace example
