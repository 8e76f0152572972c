// The kernels. opdock/ops/ defines what standard ops compute, beside their signatures.
#pragma once

#include "opdock/plugin.hpp"

namespace acme {

using opdock::Call;
using opdock::Status;

// The largest value of the knob `block`: three blocks of floats stay in the first-level cache.
inline constexpr std::int64_t max_block = 1024;

Status rmsnorm_fwd(const Call &call);
Status silu_and_mul(const Call &call);

// An op of our own: its name starts with ours, and its documentation travels with it.
inline constexpr opdock::OpDeclaration scaled_residual_op(
    "acme.scaled_residual(input: T[..., n], residual: T[..., n], scale: U[n]) -> (output ~ residual: T[..., n])",
    "output = residual + scale * input: the residual branch of a layer whose output has a learned scale per channel.");
Status scaled_residual(const Call &call);

} // namespace acme
