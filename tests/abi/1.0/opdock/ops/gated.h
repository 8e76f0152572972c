/* SPDX-License-Identifier: Apache-2.0 */
/* Gated activations. `first` and `second` are the halves of the input's last dimension: elements 0 .. n-1 and n ..
 * 2n-1.
 *
 * The activations and their derivatives are those of activation.h.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_GATED_H
#define OPDOCK_OPS_GATED_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* output = gelu(first) * second. */
#define OPDOCK_OP_GEGLU "geglu(input: T[..., 2*n]) -> (output: T[..., n])"

/* output = qgelu(first) * second. */
#define OPDOCK_OP_QGEGLU "qgeglu(input: T[..., 2*n]) -> (output: T[..., n])"

/* output = relu(first) * second. */
#define OPDOCK_OP_REGLU "reglu(input: T[..., 2*n]) -> (output: T[..., n])"

/* output = srelu(first) * second. */
#define OPDOCK_OP_SREGLU "sreglu(input: T[..., 2*n]) -> (output: T[..., n])"

/* output = silu(first) * second. */
#define OPDOCK_OP_SWIGLU "swiglu(input: T[..., 2*n]) -> (output: T[..., n])"

/* grad_input = (grad * second * gelu'(first), grad * gelu(first)). */
#define OPDOCK_OP_GEGLU_BWD "geglu_bwd(grad: T[..., n], input: T[..., 2*n]) -> (grad_input: T[..., 2*n])"

/* grad_input = (grad * second * qgelu'(first), grad * qgelu(first)). */
#define OPDOCK_OP_QGEGLU_BWD "qgeglu_bwd(grad: T[..., n], input: T[..., 2*n]) -> (grad_input: T[..., 2*n])"

/* grad_input = (grad * second * relu'(first), grad * relu(first)). */
#define OPDOCK_OP_REGLU_BWD "reglu_bwd(grad: T[..., n], input: T[..., 2*n]) -> (grad_input: T[..., 2*n])"

/* grad_input = (grad * second * srelu'(first), grad * srelu(first)). */
#define OPDOCK_OP_SREGLU_BWD "sreglu_bwd(grad: T[..., n], input: T[..., 2*n]) -> (grad_input: T[..., 2*n])"

/* grad_input = (grad * second * silu'(first), grad * silu(first)). */
#define OPDOCK_OP_SWIGLU_BWD "swiglu_bwd(grad: T[..., n], input: T[..., 2*n]) -> (grad_input: T[..., 2*n])"

/* With a = min(first, limit) and b = clamp(second, -limit, limit): output = a * sigmoid(alpha * a) * (b + 1). */
#define OPDOCK_OP_CLAMPED_SWIGLU                                                                                       \
    "clamped_swiglu(input: T[..., 2*n], *, limit: float = 7.0, alpha: float = 1.702) -> (output: T[..., n])"

/* With the same a and b, and s = sigmoid(alpha * a): the first half is grad * (b + 1) * s * (1 + alpha * a * (1 - s))
 * if first <= limit, else 0; the second half is grad * a * s if -limit <= second <= limit, else 0. */
#define OPDOCK_OP_CLAMPED_SWIGLU_BWD                                                                                   \
    "clamped_swiglu_bwd(grad: T[..., n], input: T[..., 2*n], *, limit: float = 7.0, alpha: float = 1.702) "            \
    "-> (grad_input: T[..., 2*n])"

/* output = silu(gate) * up: swiglu with the halves in two tensors. */
#define OPDOCK_OP_SILU_AND_MUL "silu_and_mul(gate: T[...], up: T[...]) -> (output: T[...])"

/* grad_gate = grad * up * silu'(gate); grad_up = grad * silu(gate). */
#define OPDOCK_OP_SILU_AND_MUL_BWD                                                                                     \
    "silu_and_mul_bwd(grad: T[...], gate: T[...], up: T[...]) -> (grad_gate: T[...], grad_up: T[...])"

/* output = gelu(gate) * up: geglu with the halves in two tensors. */
#define OPDOCK_OP_GELU_AND_MUL "gelu_and_mul(gate: T[...], up: T[...]) -> (output: T[...])"

/* grad_gate = grad * up * gelu'(gate); grad_up = grad * gelu(gate). */
#define OPDOCK_OP_GELU_AND_MUL_BWD                                                                                     \
    "gelu_and_mul_bwd(grad: T[...], gate: T[...], up: T[...]) -> (grad_gate: T[...], grad_up: T[...])"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_GATED_OPS(X)                                                                                            \
    X(geglu, GEGLU)                                                                                                    \
    X(qgeglu, QGEGLU)                                                                                                  \
    X(reglu, REGLU)                                                                                                    \
    X(sreglu, SREGLU)                                                                                                  \
    X(swiglu, SWIGLU)                                                                                                  \
    X(geglu_bwd, GEGLU_BWD)                                                                                            \
    X(qgeglu_bwd, QGEGLU_BWD)                                                                                          \
    X(reglu_bwd, REGLU_BWD)                                                                                            \
    X(sreglu_bwd, SREGLU_BWD)                                                                                          \
    X(swiglu_bwd, SWIGLU_BWD)                                                                                          \
    X(clamped_swiglu, CLAMPED_SWIGLU)                                                                                  \
    X(clamped_swiglu_bwd, CLAMPED_SWIGLU_BWD)                                                                          \
    X(silu_and_mul, SILU_AND_MUL)                                                                                      \
    X(silu_and_mul_bwd, SILU_AND_MUL_BWD)                                                                              \
    X(gelu_and_mul, GELU_AND_MUL)                                                                                      \
    X(gelu_and_mul_bwd, GELU_AND_MUL_BWD)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_GATED_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
