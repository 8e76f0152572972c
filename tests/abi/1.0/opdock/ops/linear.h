/* SPDX-License-Identifier: Apache-2.0 */
/* Linear algebra. Products accumulate in f32 or better; nothing is broadcast except as the dims specify.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_LINEAR_H
#define OPDOCK_OPS_LINEAR_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* output = a b, for each index of the leading dimensions. */
#define OPDOCK_OP_MATMUL "matmul(a: T[..., m, k], b: T[..., k, n]) -> (output: T[..., m, n])"

/* output = input weight^T + bias. */
#define OPDOCK_OP_LINEAR_FWD "linear_fwd(input: T[..., k], weight: T[n, k], bias: T[n]?) -> (output: T[..., n])"

/* grad_input = grad weight. */
#define OPDOCK_OP_LINEAR_DGRAD "linear_dgrad(grad: T[..., n], weight: T[n, k]) -> (grad_input: T[..., k])"

/* grad_weight = grad^T input, over all rows; grad_bias = sum over rows of grad. */
#define OPDOCK_OP_LINEAR_WGRAD                                                                                         \
    "linear_wgrad(grad: T[..., n], input: T[..., k]) -> (grad_weight: T[n, k], grad_bias: T[n]?)"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_LINEAR_OPS(X)                                                                                           \
    X(matmul, MATMUL)                                                                                                  \
    X(linear_fwd, LINEAR_FWD)                                                                                          \
    X(linear_dgrad, LINEAR_DGRAD)                                                                                      \
    X(linear_wgrad, LINEAR_WGRAD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_LINEAR_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
