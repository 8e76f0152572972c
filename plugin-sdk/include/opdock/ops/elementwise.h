/* Elementwise arithmetic, dropout and quantization.
 *
 * Dropout's stream is Philox 4x32-10 of (seed, offset, element) on every device; rng_state is (seed, offset), a tensor
 * so that a captured graph sees it change. Conversions to fp8 round to nearest even and saturate.
 *
 * Since opdock 0.1. */
#ifndef OPDOCK_OPS_ELEMENTWISE_H
#define OPDOCK_OPS_ELEMENTWISE_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* output = a + alpha * b. */
#define OPDOCK_OP_ADD "add(a: T[...], b: T[...], *, alpha: float = 1.0) -> (output ~ a: T[...])"

/* output = a * b. */
#define OPDOCK_OP_MUL "mul(a: T[...], b: T[...]) -> (output ~ a: T[...])"

/* mask is 1 with probability 1 - p, else 0; output = mask * input / (1 - p). */
#define OPDOCK_OP_DROPOUT_FWD                                                                                          \
    "dropout_fwd(input: T[...], rng_state: i64[2], *, p: float) -> (output ~ input: T[...], mask: u8[...])"

/* grad_input = mask * grad / (1 - p). */
#define OPDOCK_OP_DROPOUT_BWD "dropout_bwd(grad: T[...], mask: u8[...], *, p: float) -> (grad_input ~ grad: T[...])"

/* output = fp8(input * scale); amax becomes max(amax, max |input|). */
#define OPDOCK_OP_QUANTIZE                                                                                             \
    "quantize(input: T[...], scale: f32[1], mut amax: f32[1]?, *, dtype: F) -> (output: F[...]) where F in e4m3|e5m2"

/* output = input * scale_inv. */
#define OPDOCK_OP_DEQUANTIZE                                                                                           \
    "dequantize(input: F[...], scale_inv: f32[1], *, dtype: T) -> (output: T[...]) where F in e4m3|e5m2"

#ifdef __cplusplus
namespace opdock::ops {

inline constexpr OpDeclaration add(OPDOCK_OP_ADD);
inline constexpr OpDeclaration mul(OPDOCK_OP_MUL);
inline constexpr OpDeclaration dropout_fwd(OPDOCK_OP_DROPOUT_FWD);
inline constexpr OpDeclaration dropout_bwd(OPDOCK_OP_DROPOUT_BWD);
inline constexpr OpDeclaration quantize(OPDOCK_OP_QUANTIZE);
inline constexpr OpDeclaration dequantize(OPDOCK_OP_DEQUANTIZE);

} // namespace opdock::ops
#endif

#endif
