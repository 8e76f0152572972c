/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of rows of v logits, each with a target class, with label smoothing e.
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

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_LOSS_OPS(X)                                                                                             \
    X(cross_entropy_fwd, CROSS_ENTROPY_FWD)                                                                            \
    X(cross_entropy_bwd, CROSS_ENTROPY_BWD)                                                                            \
    X(fused_cross_entropy, FUSED_CROSS_ENTROPY)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_LOSS_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
