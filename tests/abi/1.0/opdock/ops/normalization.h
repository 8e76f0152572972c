/* SPDX-License-Identifier: Apache-2.0 */
/* Normalization over the last dimension, of size n.
 *
 * g is the weight, or 1 + weight with zero_centered_gamma. Statistics accumulate in f32 or better. rsigma and mu are
 * one number per row, for the backward pass; null outputs are not computed. The mean over an empty row is 0, so its mu
 * is 0 and its rsigma 1 / sqrt(eps).
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_NORMALIZATION_H
#define OPDOCK_OPS_NORMALIZATION_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* rsigma = 1 / sqrt(mean(input^2) + eps); output = input * rsigma * g. */
#define OPDOCK_OP_RMSNORM_FWD                                                                                          \
    "rmsnorm_fwd(input: T[..., n], weight: U[n], *, eps: float = 1e-5, zero_centered_gamma: bool = false) "            \
    "-> (output: T[..., n], rsigma: f32[...]?)"

/* With x = input * rsigma: grad_input = rsigma * (g * grad - x * mean(g * grad * x)); grad_weight = sum over rows
 * of grad * x. */
#define OPDOCK_OP_RMSNORM_BWD                                                                                          \
    "rmsnorm_bwd(grad: T[..., n], input: T[..., n], rsigma: f32[...], weight: U[n], "                                  \
    "*, zero_centered_gamma: bool = false) -> (grad_input: T[..., n], grad_weight: U[n]?)"

/* rmsnorm_bwd, with `add` (the gradient of the residual branch) added to grad_input before it is rounded. */
#define OPDOCK_OP_RMSNORM_BWD_ADD                                                                                      \
    "rmsnorm_bwd_add(grad: T[..., n], input: T[..., n], add: T[..., n], rsigma: f32[...], weight: U[n], "              \
    "*, zero_centered_gamma: bool = false) -> (grad_input: T[..., n], grad_weight: U[n]?)"

/* sum = input + residual; output and rsigma are rmsnorm_fwd of sum. */
#define OPDOCK_OP_FUSED_ADD_RMSNORM_FWD                                                                                \
    "fused_add_rmsnorm_fwd(input: T[..., n], residual: T[..., n], weight: U[n], "                                      \
    "*, eps: float = 1e-5, zero_centered_gamma: bool = false) "                                                        \
    "-> (output: T[..., n], sum: T[..., n], rsigma: f32[...]?)"

/* mu = mean(input); rsigma = 1 / sqrt(mean((input - mu)^2) + eps); output = (input - mu) * rsigma * g + bias. */
#define OPDOCK_OP_LAYERNORM_FWD                                                                                        \
    "layernorm_fwd(input: T[..., n], weight: U[n], bias: U[n], "                                                       \
    "*, eps: float = 1e-5, zero_centered_gamma: bool = false) "                                                        \
    "-> (output: T[..., n], mu: f32[...]?, rsigma: f32[...]?)"

/* With x = (input - mu) * rsigma and d = g * grad: grad_input = rsigma * (d - mean(d) - x * mean(d * x));
 * grad_weight = sum over rows of grad * x; grad_bias = sum over rows of grad. */
#define OPDOCK_OP_LAYERNORM_BWD                                                                                        \
    "layernorm_bwd(grad: T[..., n], input: T[..., n], mu: f32[...], rsigma: f32[...], weight: U[n], "                  \
    "*, zero_centered_gamma: bool = false) -> (grad_input: T[..., n], grad_weight: U[n]?, grad_bias: U[n]?)"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_NORMALIZATION_OPS(X)                                                                                    \
    X(rmsnorm_fwd, RMSNORM_FWD)                                                                                        \
    X(rmsnorm_bwd, RMSNORM_BWD)                                                                                        \
    X(rmsnorm_bwd_add, RMSNORM_BWD_ADD)                                                                                \
    X(fused_add_rmsnorm_fwd, FUSED_ADD_RMSNORM_FWD)                                                                    \
    X(layernorm_fwd, LAYERNORM_FWD)                                                                                    \
    X(layernorm_bwd, LAYERNORM_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_NORMALIZATION_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
