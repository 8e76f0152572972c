/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling of tokens from their logits.
 *
 * The result follows from the inputs alone, to the bit and on every device: weights are integers, whose sums are exact,
 * and random numbers are those of dropout (elementwise.h).
 *
 * A row's logits stand in an order: the largest first, equals by index, NaN at its end. With m the first of them, the
 * weight of a logit x is 2^40 * exp(x - m), to six digits: 0 where x is NaN, minus infinity or, rounded to
 * f32, m - x is at least 32; 2^40 where x is m; else, with hi for the upper 32 of a product's 64 bits,
 *
 *     z = floor((m - x) * 2^27), the difference rounded to f32
 *     y = 3098164009 * z; i = floor(y / 2^58); f = floor(y / 2^26) modulo 2^32
 *     a = hi(f * (2977028413 - hi(f * (1031553340 - hi(f * (237459814 - hi(f * (39487045 - hi(f * 4035806)))))))))
 *     weight = floor((2^32 - a) * 2^8 / 2^i)
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_SAMPLING_H
#define OPDOCK_OPS_SAMPLING_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* Two filters, applied in turn, keep a prefix of the row's order: the first k[row] logits, or all if k is absent, not
 * above 0, or larger than v; and of these, every logit before which the weights sum to less than p[row] times the sum
 * over these, that is
 *
 *     2^32 * sum before < floor(p * 2^32) * sum over these
 *
 * all if p is absent or not below 1 (or NaN), and always the first. With a and b the first two words of Philox for
 * (seed, offset) = rng_state and the row's number as counter, t = floor((a + 2^32 * b) * S / 2^64), where S is the sum
 * of the remaining weights. The result is the first remaining logit, by index, up to which the weights sum to more than
 * t: each has probability weight / S. A row in which no logit is above minus infinity has index -1. */
#define OPDOCK_OP_SAMPLE_TOP_K_TOP_P                                                                                   \
    "sample_top_k_top_p(logits: T[b, v], rng_state: i64[2], k: i32[b]?, p: f32[b]?) "                                  \
    "-> (indices: i64[b]) where v <= 4194304"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_SAMPLING_OPS(X) X(sample_top_k_top_p, SAMPLE_TOP_K_TOP_P)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_SAMPLING_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
