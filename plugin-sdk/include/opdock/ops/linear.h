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

/* linear_fwd with 8-bit factors: output = input_scale * weight_scale * (input weight^T) + bias. Scales are the divisors
 * of quantization, as quantize_per_token and similar ops return them, and the scale_inv of dequantize. */
#define OPDOCK_OP_LINEAR_FP8                                                                                           \
    "linear_fp8(input: F[..., k], weight: G[n, k], input_scale: f32[1], weight_scale: f32[1], bias: T[n]?, "           \
    "*, dtype: T) -> (output: T[..., n]) where F in e4m3|e5m2, G in e4m3|e5m2"

/* The same with one scale for each 128 elements of a row of input and for each block of 128 rows and 128 columns of
 * weight, as quantize_1x128 and quantize_128x128 make them: each element is multiplied by its block's scale. */
#define OPDOCK_OP_LINEAR_FP8_BLOCK                                                                                     \
    "linear_fp8_block(input: F[..., k], weight: G[n, k], input_scale: f32[..., (k+127)/128], "                         \
    "weight_scale: f32[(n+127)/128, (k+127)/128], bias: T[n]?, *, dtype: T) -> (output: T[..., n]) "                   \
    "where F in e4m3|e5m2, G in e4m3|e5m2"

/* Several products in one, as in a mixture of experts: the rows from starts[i] up to starts[i + 1] are group i, whose
 * weight is weight[i]. Starts begin with 0, do not decrease and end within m; others are an invalid argument. Rows
 * after the last start belong to no group: their results are 0. output = input weight[i]^T. */
#define OPDOCK_OP_GROUPED_LINEAR_FWD                                                                                   \
    "grouped_linear_fwd(input: T[m, k], weight: T[g, n, k], starts: i32[g+1]) -> (output: T[m, n])"

/* grad_input = grad weight[i]. */
#define OPDOCK_OP_GROUPED_LINEAR_DGRAD                                                                                 \
    "grouped_linear_dgrad(grad: T[m, n], weight: T[g, n, k], starts: i32[g+1]) -> (grad_input: T[m, k])"

/* grad_weight[i] = grad^T input, over the rows of group i. */
#define OPDOCK_OP_GROUPED_LINEAR_WGRAD                                                                                 \
    "grouped_linear_wgrad(grad: T[m, n], input: T[m, k], starts: i32[s]) -> (grad_weight: T[s-1, n, k]) "              \
    "where s >= 1"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_LINEAR_OPS(X)                                                                                           \
    X(matmul, MATMUL)                                                                                                  \
    X(linear_fwd, LINEAR_FWD)                                                                                          \
    X(linear_dgrad, LINEAR_DGRAD)                                                                                      \
    X(linear_wgrad, LINEAR_WGRAD)                                                                                      \
    X(linear_fp8, LINEAR_FP8)                                                                                          \
    X(linear_fp8_block, LINEAR_FP8_BLOCK)                                                                              \
    X(grouped_linear_fwd, GROUPED_LINEAR_FWD)                                                                          \
    X(grouped_linear_dgrad, GROUPED_LINEAR_DGRAD)                                                                      \
    X(grouped_linear_wgrad, GROUPED_LINEAR_WGRAD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_LINEAR_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
