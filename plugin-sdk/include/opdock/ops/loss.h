/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of rows of v logits, each with a target class, with label smoothing e, and divergences of rows of v
 * log-probabilities.
 *
 * lse = log(sum(exp(logits))) of a row. Rows whose target is ignore_index have loss 0 and gradient 0. Nothing is
 * averaged over rows.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_LOSS_H
#define OPDOCK_OPS_LOSS_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* loss = lse - (1 - e) * logits[target] - e * mean(logits). */
#define OPDOCK_OP_CROSS_ENTROPY_FWD                                                                                    \
    "cross_entropy_fwd(logits: T[b, v], target: i64[b], "                                                              \
    "*, ignore_index: int = -100, label_smoothing: float = 0.0) -> (loss: f32[b], lse: f32[b]?)"

/* grad_logits = grad_loss * (exp(logits - lse) - (1 - e) * onehot(target) - e / v). */
#define OPDOCK_OP_CROSS_ENTROPY_BWD                                                                                    \
    "cross_entropy_bwd(grad_loss: f32[b], logits: T[b, v], target: i64[b], lse: f32[b], "                              \
    "*, ignore_index: int = -100, label_smoothing: float = 0.0) -> (grad_logits: T[b, v])"

/* loss as cross_entropy_fwd; logits become their gradient, scale * (exp(logits - lse) - (1 - e) * onehot(target) -
 * e / v). */
#define OPDOCK_OP_FUSED_CROSS_ENTROPY                                                                                  \
    "fused_cross_entropy(mut logits: T[b, v], target: i64[b], "                                                        \
    "*, ignore_index: int = -100, label_smoothing: float = 0.0, scale: float = 1.0) -> (loss: f32[b])"

/* The loss of logits = input weight^T + bias and its gradients, with only some rows of logits in memory at a time. loss
 * as cross_entropy_fwd. With d = scale * (exp(logits - lse) - (1 - e) * onehot(target) - e / v): grad_input = d weight;
 * grad_weight = d^T input; grad_bias = sum over rows of d. d may be rounded to T; sums over rows are rounded once. An
 * absent scale is 1. It is a tensor so that a program may divide by the number of rows that count, or keep f16 in
 * range, without waiting for the device. */
#define OPDOCK_OP_FUSED_LINEAR_CROSS_ENTROPY                                                                           \
    "fused_linear_cross_entropy(input: T[n, i], weight: T[v, i], target: i64[n], bias: T[v]?, scale: f32[1]?, "        \
    "*, ignore_index: int = -100, label_smoothing: float = 0.0) "                                                      \
    "-> (loss: f32[n], grad_input: T[n, i]?, grad_weight: T[v, i]?, grad_bias: T[v]?)"

/* The Kullback-Leibler divergence of each row of log-probabilities from the target, given as probabilities, or with
 * log_target as log-probabilities: loss = sum(p * (log(p) - input)), where p = target or exp(target). Elements with p =
 * 0 add nothing. */
#define OPDOCK_OP_KL_DIV "kl_div(input: T[b, v], target: T[b, v], *, log_target: bool = false) -> (loss: f32[b])"

/* grad_input = -grad_loss * p. */
#define OPDOCK_OP_KL_DIV_BWD                                                                                           \
    "kl_div_bwd(grad_loss: f32[b], target: T[b, v], *, log_target: bool = false) -> (grad_input: T[b, v])"

/* The generalized Jensen-Shannon divergence of each row of log-probabilities. With q = exp(input), p = exp(target) and
 * m = beta * p + (1 - beta) * q: loss = sum(beta * p * (target - log(m)) + (1 - beta) * q * (input - log(m))). beta 0
 * means sum(p * (target - input)) and beta 1 sum(q * (input - target)), the limits of that loss divided by beta * (1 -
 * beta). Elements with m = 0 add nothing. A beta outside [0, 1] is an invalid argument. */
#define OPDOCK_OP_JSD "jsd(input: T[b, v], target: T[b, v], *, beta: float = 0.5) -> (loss: f32[b])"

/* grad_input = grad_loss * (1 - beta) * q * (input - log(m)), and 0 where m is 0; for beta 0 grad_loss * -p and for
 * beta 1 grad_loss * q * (input - target + 1). */
#define OPDOCK_OP_JSD_BWD                                                                                              \
    "jsd_bwd(grad_loss: f32[b], input: T[b, v], target: T[b, v], *, beta: float = 0.5) -> (grad_input: T[b, v])"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_LOSS_OPS(X)                                                                                             \
    X(cross_entropy_fwd, CROSS_ENTROPY_FWD)                                                                            \
    X(cross_entropy_bwd, CROSS_ENTROPY_BWD)                                                                            \
    X(fused_cross_entropy, FUSED_CROSS_ENTROPY)                                                                        \
    X(fused_linear_cross_entropy, FUSED_LINEAR_CROSS_ENTROPY)                                                          \
    X(kl_div, KL_DIV)                                                                                                  \
    X(kl_div_bwd, KL_DIV_BWD)                                                                                          \
    X(jsd, JSD)                                                                                                        \
    X(jsd_bwd, JSD_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_LOSS_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
