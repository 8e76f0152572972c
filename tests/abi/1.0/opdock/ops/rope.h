/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding of [sequence, batch, heads, dim], by angles (radians) of [position, 1, 1, rotated dims].
 *
 * The first r dims are rotated, the rest pass through. With h = r / 2, dim i < h is paired with dim i + h, or,
 * interleaved, dim 2i with dim 2i + 1; each dim uses its own entry of freqs.
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

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_ROPE_OPS(X)                                                                                             \
    X(fused_rope_fwd, FUSED_ROPE_FWD)                                                                                  \
    X(fused_rope_bwd, FUSED_ROPE_BWD)                                                                                  \
    X(fused_rope_qk_fwd, FUSED_ROPE_QK_FWD)                                                                            \
    X(fused_rope_qk_bwd, FUSED_ROPE_QK_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_ROPE_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
