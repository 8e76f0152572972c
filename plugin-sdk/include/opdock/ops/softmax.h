/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax over the last dimension, scaled and masked, and its logarithm. A row whose keys are all hidden gives zeros.
 *
 * The backward ops take the forward's output.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_SOFTMAX_H
#define OPDOCK_OPS_SOFTMAX_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* output = softmax(scale * input) over the last dimension. */
#define OPDOCK_OP_SCALED_SOFTMAX_FWD                                                                                   \
    "scaled_softmax_fwd(input: T[..., k], *, scale: float = 1.0) -> (output: T[..., k])"

/* grad_input = scale * output * (grad - sum(grad * output)), the sum over the last dimension. */
#define OPDOCK_OP_SCALED_SOFTMAX_BWD                                                                                   \
    "scaled_softmax_bwd(grad: T[..., k], output: T[..., k], *, scale: float = 1.0) -> (grad_input: T[..., k])"

/* scaled_softmax over the keys that the mask leaves visible: 1 hides. Hidden keys get 0. */
#define OPDOCK_OP_SCALED_MASKED_SOFTMAX_FWD                                                                            \
    "scaled_masked_softmax_fwd(input: T[b, h, q, k], mask: u8[m, 1, q, k], *, scale: float = 1.0) "                    \
    "-> (output: T[b, h, q, k]) where m in 1|b"

/* grad_input = scale * output * (grad - sum(grad * output)), the sum over the last dimension. Hidden keys get 0,
 * because their output is 0. */
#define OPDOCK_OP_SCALED_MASKED_SOFTMAX_BWD                                                                            \
    "scaled_masked_softmax_bwd(grad: T[b, h, q, k], output: T[b, h, q, k], *, scale: float = 1.0) "                    \
    "-> (grad_input: T[b, h, q, k])"

/* scaled_softmax where row i sees keys 0 .. i. */
#define OPDOCK_OP_SCALED_UPPER_TRIANG_MASKED_SOFTMAX_FWD                                                               \
    "scaled_upper_triang_masked_softmax_fwd(input: T[b, s, s], *, scale: float = 1.0) -> (output: T[b, s, s])"

/* grad_input = scale * output * (grad - sum(grad * output)), the sum over the last dimension. Hidden keys get 0,
 * because their output is 0. */
#define OPDOCK_OP_SCALED_UPPER_TRIANG_MASKED_SOFTMAX_BWD                                                               \
    "scaled_upper_triang_masked_softmax_bwd(grad: T[b, s, s], output: T[b, s, s], *, scale: float = 1.0) "             \
    "-> (grad_input: T[b, s, s])"

/* scaled_softmax where row i sees keys 0 .. i + k - q: the last query is aligned with the last key. */
#define OPDOCK_OP_SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_FWD                                                             \
    "scaled_aligned_causal_masked_softmax_fwd(input: T[b, h, q, k], *, scale: float = 1.0) "                           \
    "-> (output: T[b, h, q, k])"

/* grad_input = scale * output * (grad - sum(grad * output)), the sum over the last dimension. Hidden keys get 0,
 * because their output is 0. */
#define OPDOCK_OP_SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_BWD                                                             \
    "scaled_aligned_causal_masked_softmax_bwd(grad: T[b, h, q, k], output: T[b, h, q, k], "                            \
    "*, scale: float = 1.0) -> (grad_input: T[b, h, q, k])"

/* output = input - log(sum(exp(input))), the sum over the last dimension. A row with only minus infinity is NaN.
 */
#define OPDOCK_OP_LOG_SOFTMAX_FWD "log_softmax_fwd(input: T[..., k]) -> (output: T[..., k])"

/* grad_input = grad - exp(output) * sum(grad), the sum over the last dimension. */
#define OPDOCK_OP_LOG_SOFTMAX_BWD "log_softmax_bwd(grad: T[..., k], output: T[..., k]) -> (grad_input: T[..., k])"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_SOFTMAX_OPS(X)                                                                                          \
    X(scaled_softmax_fwd, SCALED_SOFTMAX_FWD)                                                                          \
    X(scaled_softmax_bwd, SCALED_SOFTMAX_BWD)                                                                          \
    X(scaled_masked_softmax_fwd, SCALED_MASKED_SOFTMAX_FWD)                                                            \
    X(scaled_masked_softmax_bwd, SCALED_MASKED_SOFTMAX_BWD)                                                            \
    X(scaled_upper_triang_masked_softmax_fwd, SCALED_UPPER_TRIANG_MASKED_SOFTMAX_FWD)                                  \
    X(scaled_upper_triang_masked_softmax_bwd, SCALED_UPPER_TRIANG_MASKED_SOFTMAX_BWD)                                  \
    X(scaled_aligned_causal_masked_softmax_fwd, SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_FWD)                              \
    X(scaled_aligned_causal_masked_softmax_bwd, SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_BWD)                              \
    X(log_softmax_fwd, LOG_SOFTMAX_FWD)                                                                                \
    X(log_softmax_bwd, LOG_SOFTMAX_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_SOFTMAX_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
