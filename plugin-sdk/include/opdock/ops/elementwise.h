/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise arithmetic, dropout and quantization.
 *
 * Dropout draws the same bits on every device. Element i (its row-major position, whatever the strides) takes word
 * i % 4 of Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), where
 *
 *     counter = (low half of i / 4, its high half, low half of offset, its high half)
 *     key     = (low half of seed, its high half)
 *
 * and (seed, offset) = rng_state, each taken as an unsigned 64-bit number of two 32-bit halves. rng_state is a tensor
 * so that a captured graph sees it change. With threshold = floor(p * 2^32 + 0.5), in f64, the element is kept when its
 * word, as an integer, is at least the threshold: p = 0 keeps all and p = 1 none. A p outside [0, 1] is an invalid
 * argument. The ten rounds, where hi and lo are the halves of a 64-bit product:
 *
 *     (a, b, c, d) = (hi(0xcd9e8d57 * c) ^ b ^ key[0], lo(0xcd9e8d57 * c),
 *                     hi(0xd2511f53 * a) ^ d ^ key[1], lo(0xd2511f53 * a))
 *
 * with (0x9e3779b9, 0xbb67ae85) added to the key, modulo 2^32 each, between one round and the next. The words of
 * counter 0 under key 0 are 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
 *
 * Conversions to fp8 round to nearest even and saturate: values past the largest one (448 in e4m3, 57344 in e5m2),
 * infinity included, become the largest one. NaN stays NaN.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_ELEMENTWISE_H
#define OPDOCK_OPS_ELEMENTWISE_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* output = a + alpha * b. */
#define OPDOCK_OP_ADD "add(a: T[...], b: T[...], *, alpha: float = 1.0) -> (output ~ a: T[...])"

/* output = a * b. */
#define OPDOCK_OP_MUL "mul(a: T[...], b: T[...]) -> (output ~ a: T[...])"

/* mask is 1 for a kept element, with probability 1 - p, else 0; output = input / (1 - p) if kept, else 0. */
#define OPDOCK_OP_DROPOUT_FWD                                                                                          \
    "dropout_fwd(input: T[...], rng_state: i64[2], *, p: float) -> (output ~ input: T[...], mask: u8[...])"

/* grad_input = grad / (1 - p) if mask is not 0, else 0. */
#define OPDOCK_OP_DROPOUT_BWD "dropout_bwd(grad: T[...], mask: u8[...], *, p: float) -> (grad_input ~ grad: T[...])"

/* output = fp8(f32(input * scale)); the product is rounded to f32 first, so that it is the same everywhere. amax
 * becomes max(amax, max |input|), or NaN if any of them is NaN. */
#define OPDOCK_OP_QUANTIZE                                                                                             \
    "quantize(input: T[...], scale: f32[1], mut amax: f32[1]?, *, dtype: F) -> (output: F[...]) where F in e4m3|e5m2"

/* output = input * scale_inv. */
#define OPDOCK_OP_DEQUANTIZE                                                                                           \
    "dequantize(input: F[...], scale_inv: f32[1], *, dtype: T) -> (output: T[...]) where F in e4m3|e5m2"

/* scale = max |input| / L of each row, rounded to f32, where L is the dtype's largest value (127 for i8); output =
 * input / scale, rounded to f32 first and then to the nearest in -L .. L, ties to even. A row with scale 0 becomes
 * zeros. A row with NaN or infinity has that scale; quotients that are NaN stay NaN, or become 0 in i8. */
#define OPDOCK_OP_QUANTIZE_PER_TOKEN                                                                                   \
    "quantize_per_token(input: T[..., n], *, dtype: F) -> (output: F[..., n], scale: f32[...]) "                       \
    "where F in e4m3|e5m2|i8"

/* quantize_per_token with one scale for each 128 elements of a row, or for each block of 128 rows and 128 columns; the
 * last ones may be smaller. */
#define OPDOCK_OP_QUANTIZE_1X128                                                                                       \
    "quantize_1x128(input: T[..., n], *, dtype: F) -> (output: F[..., n], scale: f32[..., (n+127)/128]) "              \
    "where F in e4m3|e5m2|i8"
#define OPDOCK_OP_QUANTIZE_128X128                                                                                     \
    "quantize_128x128(input: T[m, n], *, dtype: F) "                                                                   \
    "-> (output: F[m, n], scale: f32[(m+127)/128, (n+127)/128]) where F in e4m3|e5m2|i8"

/* quantize_per_token of the results of rmsnorm_fwd and silu_and_mul, before they are rounded to T. */
#define OPDOCK_OP_RMSNORM_QUANTIZE                                                                                     \
    "rmsnorm_quantize(input: T[..., n], weight: U[n], *, dtype: F, eps: float = 1e-5, "                                \
    "zero_centered_gamma: bool = false) -> (output: F[..., n], scale: f32[...]) where F in e4m3|e5m2"
#define OPDOCK_OP_SILU_AND_MUL_QUANTIZE                                                                                \
    "silu_and_mul_quantize(gate: T[..., n], up: T[..., n], *, dtype: F) -> (output: F[..., n], scale: f32[...]) "      \
    "where F in e4m3|e5m2"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_ELEMENTWISE_OPS(X)                                                                                      \
    X(add, ADD)                                                                                                        \
    X(mul, MUL)                                                                                                        \
    X(dropout_fwd, DROPOUT_FWD)                                                                                        \
    X(dropout_bwd, DROPOUT_BWD)                                                                                        \
    X(quantize, QUANTIZE)                                                                                              \
    X(dequantize, DEQUANTIZE)                                                                                          \
    X(quantize_per_token, QUANTIZE_PER_TOKEN)                                                                          \
    X(quantize_1x128, QUANTIZE_1X128)                                                                                  \
    X(quantize_128x128, QUANTIZE_128X128)                                                                              \
    X(rmsnorm_quantize, RMSNORM_QUANTIZE)                                                                              \
    X(silu_and_mul_quantize, SILU_AND_MUL_QUANTIZE)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_ELEMENTWISE_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
