/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: the choice of experts for each token, the permutation of rows into the order of the experts, and
 * back. The products of each expert are in linear.h; topk_softmax is in indexing.h.
 *
 * Each of t tokens has k choices, the experts indices[token, choice]. A choice with a negative expert is dropped: it
 * adds nothing to an output. Sorted by expert, then token, then choice, with dropped ones last, the t * k choices have
 * the places 0 .. t * k - 1; places[token, choice] is that place, or -1 - place for a dropped choice. No two choices
 * have the same place. The shapes depend on those of the inputs alone.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_MOE_H
#define OPDOCK_OPS_MOE_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* With s = sigmoid(logits): the k experts of each token with the largest s + bias, largest first; ties by lower index.
 * NaN counts as the largest. s is rounded to f32 before the addition and s + bias after it, so that all implementations
 * choose alike. The bias has no other effect: weights = scale * s of the chosen experts, or with renormalize scale * s
 * / (sum of s over these k + 1e-20). */
#define OPDOCK_OP_TOPK_SIGMOID_FWD                                                                                     \
    "topk_sigmoid_fwd(logits: T[t, e], bias: f32[e]?, *, k: int, renormalize: bool = false, scale: float = 1.0) "      \
    "-> (weights: f32[t, k], indices: i32[t, k]) where k <= e"

/* With s as above and g = scale * grad_weights, or with renormalize that g replaced by (g - sum(g * s) / d) / d, where
 * sums are over the chosen experts and d = sum(s) + 1e-20: grad_logits = g * s * (1 - s) for a chosen expert, 0 for
 * others. The indices of a token must differ; one outside 0 .. e - 1 is an invalid argument. */
#define OPDOCK_OP_TOPK_SIGMOID_BWD                                                                                     \
    "topk_sigmoid_bwd(grad_weights: f32[t, k], logits: T[t, e], indices: i32[t, k], "                                  \
    "*, renormalize: bool = false, scale: float = 1.0) -> (grad_logits: T[t, e]) where k <= e"

/* order[place] = token * k + choice. The choices of expert i have the places starts[i] .. starts[i + 1] - 1, the
 * dropped ones the places from starts[experts] on. An index >= experts is an invalid argument. */
#define OPDOCK_OP_MOE_ALIGN                                                                                            \
    "moe_align(indices: i32[t, k], *, experts: int) "                                                                  \
    "-> (places: i32[t, k], order: i32[t*k], starts: i32[experts+1])"

/* output[places[token, choice]] = input[token]; 0 at the places of dropped choices. A place outside 0 .. t * k - 1 is
 * an invalid argument, here and below. */
#define OPDOCK_OP_MOE_PERMUTE "moe_permute(input: T[t, n], places: i32[t, k]) -> (output: T[t*k, n])"

/* grad_input[token] = sum over its choices of grad[places[token, choice]]. */
#define OPDOCK_OP_MOE_PERMUTE_BWD                                                                                      \
    "moe_permute_bwd(grad: T[r, n], places: i32[t, k]) -> (grad_input: T[t, n]) where r == t*k"

/* output[token] = sum over its choices of weights[token, choice] * input[places[token, choice]]. */
#define OPDOCK_OP_MOE_UNPERMUTE                                                                                        \
    "moe_unpermute(input: T[r, n], places: i32[t, k], weights: f32[t, k]) -> (output: T[t, n]) where r == t*k"

/* grad_input[places[token, choice]] = weights[token, choice] * grad[token], 0 at the places of dropped choices;
 * grad_weights[token, choice] = dot(grad[token], input[places[token, choice]]), 0 for a dropped one. */
#define OPDOCK_OP_MOE_UNPERMUTE_BWD                                                                                    \
    "moe_unpermute_bwd(grad: T[t, n], input: T[r, n], places: i32[t, k], weights: f32[t, k]) "                         \
    "-> (grad_input: T[r, n], grad_weights: f32[t, k]?) where r == t*k"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_MOE_OPS(X)                                                                                              \
    X(topk_sigmoid_fwd, TOPK_SIGMOID_FWD)                                                                              \
    X(topk_sigmoid_bwd, TOPK_SIGMOID_BWD)                                                                              \
    X(moe_align, MOE_ALIGN)                                                                                            \
    X(moe_permute, MOE_PERMUTE)                                                                                        \
    X(moe_permute_bwd, MOE_PERMUTE_BWD)                                                                                \
    X(moe_unpermute, MOE_UNPERMUTE)                                                                                    \
    X(moe_unpermute_bwd, MOE_UNPERMUTE_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_MOE_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
