/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over whole sequences and, for decoding, over a paged cache.
 *
 * h query heads share g key heads: head m uses key head m / (h / g). In a sequence with s queries and k keys, query i
 * is at position p = i + k - s among the keys: the last query is at the last key.
 *
 *   z[i, j] = scale * dot(query[i], key[j]); an absent scale is 1 / sqrt(d) (1 if d is 0)
 *   z[i, j] = soft_cap * tanh(z[i, j] / soft_cap) where soft_cap > 0, then + bias[i, j]
 *   lse[i] = log(sum over j of exp(z[i, j])), output[i] = sum over j of exp(z[i, j] - lse[i]) * value[j]
 *
 * The sums go over the keys j < k that query i sees: causal: j <= p; window_left >= 0: j >= p - window_left;
 * window_right >= 0: j <= p + window_right. A query that sees no key, or none with z above minus infinity, has output
 * 0, lse of minus infinity and no part in any gradient.
 *
 * Sequences of different lengths follow each other in a batch of 1: sequence i consists of the queries from
 * query_starts[i] and the keys from key_starts[i] up to the next start, so there is one start more than sequences. Both
 * inputs are present or neither. Starts begin with 0, do not decrease and end within s and k; rows after the last start
 * belong to no sequence: their outputs, including gradients, are 0, their lse minus infinity.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_ATTENTION_H
#define OPDOCK_OPS_ATTENTION_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

#define OPDOCK_OP_ATTENTION_FWD                                                                                        \
    "attention_fwd(query: T[b, s, h, d], key: T[b, k, g, d], value: T[b, k, g, e], bias: T[b, h, s, k]?, "             \
    "query_starts: i32[n]?, key_starts: i32[n]?, "                                                                     \
    "*, scale: float?, causal: bool = false, window_left: int = -1, window_right: int = -1, soft_cap: float = 0.0) "   \
    "-> (output: T[b, s, h, e], lse: f32[b, h, s]?) where h%g == 0, n > 0, b*n == n"

/* With w[i, j] = exp(min(z[i, j] - lse[i], 0)), as rounding must not make a weight larger than 1: grad_value[j] = sum
 * over i of w[i, j] * grad[i]; grad_bias[i, j] = w[i, j] * (dot(grad[i], value[j]) - dot(grad[i], output[i])), 0 where
 * i does not see j. That times scale, and times 1 - (y / soft_cap)^2 where y is z without the bias and soft_cap > 0, is
 * u[i, j]; grad_query[i] = sum over j of u[i, j] * key[j]; grad_key[j] = sum over i of u[i, j] * query[i]. What heads
 * share is summed over them. */
#define OPDOCK_OP_ATTENTION_BWD                                                                                        \
    "attention_bwd(grad: T[b, s, h, e], query: T[b, s, h, d], key: T[b, k, g, d], value: T[b, k, g, e], "              \
    "output: T[b, s, h, e], lse: f32[b, h, s], bias: T[b, h, s, k]?, query_starts: i32[n]?, key_starts: i32[n]?, "     \
    "*, scale: float?, causal: bool = false, window_left: int = -1, window_right: int = -1, soft_cap: float = 0.0) "   \
    "-> (grad_query: T[b, s, h, d], grad_key: T[b, k, g, d], grad_value: T[b, k, g, e], grad_bias: T[b, h, s, k]?) "   \
    "where h%g == 0, n > 0, b*n == n"

/* One query for each of b sequences, whose keys and values are in pages of t tokens: token j of sequence i is at place
 * j % t of page block_table[i, j / t], for j < lengths[i]. The query is at the last of them; window_left as above. */
#define OPDOCK_OP_ATTENTION_DECODE                                                                                     \
    "attention_decode(query: T[b, h, d], key_cache: T[p, t, g, d], value_cache: T[p, t, g, e], "                       \
    "block_table: i32[b, m], lengths: i32[b], "                                                                        \
    "*, scale: float?, window_left: int = -1, soft_cap: float = 0.0) "                                                 \
    "-> (output: T[b, h, e], lse: f32[b, h]?) where h%g == 0"

/* Writes n tokens into the cache: token i to place slots[i] % t of page slots[i] / t; a token with a negative slot is
 * skipped. No two tokens may have the same slot. */
#define OPDOCK_OP_KV_CACHE_APPEND                                                                                      \
    "kv_cache_append(mut key_cache: T[p, t, g, d], mut value_cache: T[p, t, g, e], "                                   \
    "key: T[n, g, d], value: T[n, g, e], slots: i64[n]) -> ()"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_ATTENTION_OPS(X)                                                                                        \
    X(attention_fwd, ATTENTION_FWD)                                                                                    \
    X(attention_bwd, ATTENTION_BWD)                                                                                    \
    X(attention_decode, ATTENTION_DECODE)                                                                              \
    X(kv_cache_append, KV_CACHE_APPEND)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_ATTENTION_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
