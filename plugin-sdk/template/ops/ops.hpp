// SPDX-License-Identifier: Apache-2.0
// The kernels. opdock/ops/ defines what a standard op computes, beside its signature.
#pragma once

#include "opdock/plugin.hpp"

namespace example {

using opdock::Call;
using opdock::Status;

// The largest value of the knob `block`.
inline constexpr std::int64_t max_block = 1024;

Status silu(const Call &call);

// Declare an op of your own here as well, with a name that starts with yours:
//
//     inline constexpr opdock::OpDeclaration twice_op("example.twice(x: T[...]) -> (y: T[...])", "y = 2 x.");
//     Status twice(const Call &call);

} // namespace example
