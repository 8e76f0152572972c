/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding: rotates pairs of dims and passes the others through.
 *
 * fused_rope_* take [sequence, batch, heads, dim] and angles (radians) of [position, 1, 1, rotated dims]. The first r
 * dims are rotated. With h = r / 2, dim i < h is paired with dim i + h, or, interleaved, dim 2i with dim 2i + 1; each
 * dim uses its own entry of freqs.
 *
 * The others take [token, heads, dim] and a position for each token, which selects a row of tables of cosines and
 * sines: for 2r rotated dims, i < r is paired with dim i + r, or, interleaved, dim 2i with dim 2i + 1, and both use
 * entry i. A position outside 0 .. m - 1 is an invalid argument. One tensor with both tables is passed as two slices.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_ROPE_H
#define OPDOCK_OPS_ROPE_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* For a pair of dims (i, j) with elements (x, y) at position p: output[i] = x * cos(freqs[p, i]) - y * sin(freqs[p,
 * i]); output[j] = y * cos(freqs[p, j]) + x * sin(freqs[p, j]). */
#define OPDOCK_OP_FUSED_ROPE_FWD                                                                                       \
    "fused_rope_fwd(input: T[s, b, h, d], freqs: f32[m, 1, 1, r], *, interleaved: bool = false) "                      \
    "-> (output ~ input: T[s, b, h, d]) where m >= s, r <= d"

/* The transpose: with gradients (u, v) of a pair (i, j): grad_input[i] = u * cos(freqs[p, i]) + v * sin(freqs[p,
 * j]); grad_input[j] = v * cos(freqs[p, j]) - u * sin(freqs[p, i]). */
#define OPDOCK_OP_FUSED_ROPE_BWD                                                                                       \
    "fused_rope_bwd(grad: T[s, b, h, d], freqs: f32[m, 1, 1, r], *, interleaved: bool = false) "                       \
    "-> (grad_input ~ grad: T[s, b, h, d]) where m >= s, r <= d"

/* Rotates both tensors of an attention as fused_rope_fwd does; h query heads and g key heads. */
#define OPDOCK_OP_FUSED_ROPE_QK_FWD                                                                                    \
    "fused_rope_qk_fwd(query: T[s, b, h, d], key: T[s, b, g, d], freqs: f32[m, 1, 1, r], "                             \
    "*, interleaved: bool = false) "                                                                                   \
    "-> (query_out ~ query: T[s, b, h, d], key_out ~ key: T[s, b, g, d]) where m >= s, r <= d"
#define OPDOCK_OP_FUSED_ROPE_QK_BWD                                                                                    \
    "fused_rope_qk_bwd(grad_query_out: T[s, b, h, d], grad_key_out: T[s, b, g, d], freqs: f32[m, 1, 1, r], "           \
    "*, interleaved: bool = false) "                                                                                   \
    "-> (grad_query ~ grad_query_out: T[s, b, h, d], grad_key ~ grad_key_out: T[s, b, g, d]) where m >= s, r <= d"

/* For pair n of dims (i, j) with elements (x, y) of a token at position p: output[i] = x * cos[p, n] - y * sin[p, n];
 * output[j] = y * cos[p, n] + x * sin[p, n]. */
#define OPDOCK_OP_ROPE_POSITIONS                                                                                       \
    "rope_positions(input: T[t, h, d], positions: P[t], cos: f32[m, r], sin: f32[m, r], "                              \
    "*, interleaved: bool = false) "                                                                                   \
    "-> (output ~ input: T[t, h, d]) where 2*r <= d, P in i64|i32"

/* The transpose: the rotation by -sin. */
#define OPDOCK_OP_ROPE_POSITIONS_BWD                                                                                   \
    "rope_positions_bwd(grad: T[t, h, d], positions: P[t], cos: f32[m, r], sin: f32[m, r], "                           \
    "*, interleaved: bool = false) "                                                                                   \
    "-> (grad_input ~ grad: T[t, h, d]) where 2*r <= d, P in i64|i32"

/* Rotates both tensors of an attention as rope_positions does; h query heads and g key heads. */
#define OPDOCK_OP_ROPE_QK_POSITIONS                                                                                    \
    "rope_qk_positions(query: T[t, h, d], key: T[t, g, d], positions: P[t], cos: f32[m, r], sin: f32[m, r], "          \
    "*, interleaved: bool = false) "                                                                                   \
    "-> (query_out ~ query: T[t, h, d], key_out ~ key: T[t, g, d]) where 2*r <= d, P in i64|i32"
#define OPDOCK_OP_ROPE_QK_POSITIONS_BWD                                                                                \
    "rope_qk_positions_bwd(grad_query_out: T[t, h, d], grad_key_out: T[t, g, d], positions: P[t], "                    \
    "cos: f32[m, r], sin: f32[m, r], *, interleaved: bool = false) "                                                   \
    "-> (grad_query ~ grad_query_out: T[t, h, d], grad_key ~ grad_key_out: T[t, g, d]) "                               \
    "where 2*r <= d, P in i64|i32"

/* Each head of query and key is normalized, then rotated as by rope_qk_positions: with s = 1 / sqrt(mean(x^2) + eps)
 * for a head x, x * s * weight is rotated, without rounding in between. */
#define OPDOCK_OP_QK_NORM_ROPE                                                                                         \
    "qk_norm_rope(query: T[t, h, d], key: T[t, g, d], query_weight: U[d], key_weight: U[d], positions: P[t], "         \
    "cos: f32[m, r], sin: f32[m, r], *, eps: float = 1e-6, interleaved: bool = false) "                                \
    "-> (query_out ~ query: T[t, h, d], key_out ~ key: T[t, g, d]) where 2*r <= d, P in i64|i32"

/* With u the gradient rotated back, s as above, y = x * s and v = u * weight: grad_query (grad_key) is
 * s * (v - y * mean(v * y)), and the gradient of a weight is the sum of u * y over tokens and heads. */
#define OPDOCK_OP_QK_NORM_ROPE_BWD                                                                                     \
    "qk_norm_rope_bwd(grad_query_out: T[t, h, d], grad_key_out: T[t, g, d], query: T[t, h, d], key: T[t, g, d], "      \
    "query_weight: U[d], key_weight: U[d], positions: P[t], cos: f32[m, r], sin: f32[m, r], "                          \
    "*, eps: float = 1e-6, interleaved: bool = false) "                                                                \
    "-> (grad_query ~ grad_query_out: T[t, h, d], grad_key ~ grad_key_out: T[t, g, d], "                               \
    "grad_query_weight: U[d]?, grad_key_weight: U[d]?) where 2*r <= d, P in i64|i32"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_ROPE_OPS(X)                                                                                             \
    X(fused_rope_fwd, FUSED_ROPE_FWD)                                                                                  \
    X(fused_rope_bwd, FUSED_ROPE_BWD)                                                                                  \
    X(fused_rope_qk_fwd, FUSED_ROPE_QK_FWD)                                                                            \
    X(fused_rope_qk_bwd, FUSED_ROPE_QK_BWD)                                                                            \
    X(rope_positions, ROPE_POSITIONS)                                                                                  \
    X(rope_positions_bwd, ROPE_POSITIONS_BWD)                                                                          \
    X(rope_qk_positions, ROPE_QK_POSITIONS)                                                                            \
    X(rope_qk_positions_bwd, ROPE_QK_POSITIONS_BWD)                                                                    \
    X(qk_norm_rope, QK_NORM_ROPE)                                                                                      \
    X(qk_norm_rope_bwd, QK_NORM_ROPE_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_ROPE_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
