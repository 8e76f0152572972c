/* SPDX-License-Identifier: Apache-2.0 */
/* Rows selected by index, the selection of indices, and permutations of elements.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_INDEXING_H
#define OPDOCK_OPS_INDEXING_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* Each row of output is the row of weight with that index. An index outside 0 .. v - 1 is an invalid argument. */
#define OPDOCK_OP_EMBEDDING "embedding(weight: T[v, n], indices: i64[...]) -> (output: T[..., n])"

/* Each row of grad_weight is the sum of the rows of grad with that index. weight only defines v and is not read. */
#define OPDOCK_OP_EMBEDDING_BWD                                                                                        \
    "embedding_bwd(grad: T[..., n], weight: T[v, n], indices: i64[...]) -> (grad_weight: T[v, n])"

/* output[i, j, k] = input[i, k, j]. */
#define OPDOCK_OP_PERMUTE_021 "permute_021(input: T[a, b, c]) -> (output: T[a, c, b])"

/* The k largest elements of each row and their places, largest first; ties by lower place. NaN counts as the
 * largest. */
#define OPDOCK_OP_TOPK "topk(input: T[..., n], *, k: int) -> (values: T[..., k], indices: i64[..., k]) where k <= n"

/* The k experts of each token with the largest logits, largest first; ties by lower index. NaN counts as the largest.
 * weights = softmax(logits) of the chosen experts, or with renormalize the softmax over these k alone. */
#define OPDOCK_OP_TOPK_SOFTMAX_FWD                                                                                     \
    "topk_softmax_fwd(logits: T[t, e], *, k: int, renormalize: bool = false) "                                         \
    "-> (weights: f32[t, k], indices: i32[t, k]) where k <= e"

/* With s = sum(grad_weights * weights) of a token and p = softmax(logits): grad_logits = weights * grad_weights for a
 * chosen expert, 0 for others, minus p * s; with renormalize p is weights for a chosen expert, 0 for others. The
 * indices of a token must differ; one outside 0 .. e - 1 is an invalid argument. */
#define OPDOCK_OP_TOPK_SOFTMAX_BWD                                                                                     \
    "topk_softmax_bwd(grad_weights: f32[t, k], logits: T[t, e], weights: f32[t, k], indices: i32[t, k], "              \
    "*, renormalize: bool = false) -> (grad_logits: T[t, e]) where k <= e"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_INDEXING_OPS(X)                                                                                         \
    X(embedding, EMBEDDING)                                                                                            \
    X(embedding_bwd, EMBEDDING_BWD)                                                                                    \
    X(permute_021, PERMUTE_021)                                                                                        \
    X(topk, TOPK)                                                                                                      \
    X(topk_softmax_fwd, TOPK_SOFTMAX_FWD)                                                                              \
    X(topk_softmax_bwd, TOPK_SOFTMAX_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_INDEXING_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
