/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise activations, their derivatives, and derivatives that also sum the gradient of the bias.
 *
 * grad_bias sums the unrounded grad_input, not grad.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_ACTIVATION_H
#define OPDOCK_OPS_ACTIVATION_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* gelu(x) = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) (the tanh form), elementwise. */
#define OPDOCK_OP_GELU "gelu(input: T[...]) -> (output ~ input: T[...])"

/* qgelu(x) = x * sigmoid(1.702 * x), elementwise. */
#define OPDOCK_OP_QGELU "qgelu(input: T[...]) -> (output ~ input: T[...])"

/* relu(x) = max(x, 0), elementwise. */
#define OPDOCK_OP_RELU "relu(input: T[...]) -> (output ~ input: T[...])"

/* srelu(x) = max(x, 0)^2 (relu squared), elementwise. */
#define OPDOCK_OP_SRELU "srelu(input: T[...]) -> (output ~ input: T[...])"

/* silu(x) = x * sigmoid(x), elementwise. */
#define OPDOCK_OP_SILU "silu(input: T[...]) -> (output ~ input: T[...])"

/* grad_input = grad * gelu'(input); with u = sqrt(2 / pi) * (x + 0.044715 * x^3): gelu'(x) = 0.5 * (1 + tanh(u)) +
 * 0.5 * x * (1 - tanh(u)^2) * sqrt(2 / pi) * (1 + 0.134145 * x^2). */
#define OPDOCK_OP_GELU_BWD "gelu_bwd(grad: T[...], input: T[...]) -> (grad_input ~ grad: T[...])"

/* grad_input = grad * qgelu'(input); with s = sigmoid(1.702 * x): qgelu'(x) = s * (1 + 1.702 * x * (1 - s)). */
#define OPDOCK_OP_QGELU_BWD "qgelu_bwd(grad: T[...], input: T[...]) -> (grad_input ~ grad: T[...])"

/* grad_input = grad * relu'(input); relu'(x) = 1 where x > 0, else 0. */
#define OPDOCK_OP_RELU_BWD "relu_bwd(grad: T[...], input: T[...]) -> (grad_input ~ grad: T[...])"

/* grad_input = grad * srelu'(input); srelu'(x) = 2 * max(x, 0). */
#define OPDOCK_OP_SRELU_BWD "srelu_bwd(grad: T[...], input: T[...]) -> (grad_input ~ grad: T[...])"

/* grad_input = grad * silu'(input); with s = sigmoid(x): silu'(x) = s * (1 + x * (1 - s)). */
#define OPDOCK_OP_SILU_BWD "silu_bwd(grad: T[...], input: T[...]) -> (grad_input ~ grad: T[...])"

/* grad_input = grad * gelu'(input); grad_bias = sum of grad_input over the leading dimensions. */
#define OPDOCK_OP_GELU_BWD_BIAS                                                                                        \
    "gelu_bwd_bias(grad: T[..., n], input: T[..., n]) -> (grad_bias: T[n], grad_input: T[..., n])"

/* grad_input = grad * qgelu'(input); grad_bias = sum of grad_input over the leading dimensions. */
#define OPDOCK_OP_QGELU_BWD_BIAS                                                                                       \
    "qgelu_bwd_bias(grad: T[..., n], input: T[..., n]) -> (grad_bias: T[n], grad_input: T[..., n])"

/* grad_input = grad * relu'(input); grad_bias = sum of grad_input over the leading dimensions. */
#define OPDOCK_OP_RELU_BWD_BIAS                                                                                        \
    "relu_bwd_bias(grad: T[..., n], input: T[..., n]) -> (grad_bias: T[n], grad_input: T[..., n])"

/* grad_input = grad * srelu'(input); grad_bias = sum of grad_input over the leading dimensions. */
#define OPDOCK_OP_SRELU_BWD_BIAS                                                                                       \
    "srelu_bwd_bias(grad: T[..., n], input: T[..., n]) -> (grad_bias: T[n], grad_input: T[..., n])"

/* grad_input = grad * silu'(input); grad_bias = sum of grad_input over the leading dimensions. */
#define OPDOCK_OP_SILU_BWD_BIAS                                                                                        \
    "silu_bwd_bias(grad: T[..., n], input: T[..., n]) -> (grad_bias: T[n], grad_input: T[..., n])"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_ACTIVATION_OPS(X)                                                                                       \
    X(gelu, GELU)                                                                                                      \
    X(qgelu, QGELU)                                                                                                    \
    X(relu, RELU)                                                                                                      \
    X(srelu, SRELU)                                                                                                    \
    X(silu, SILU)                                                                                                      \
    X(gelu_bwd, GELU_BWD)                                                                                              \
    X(qgelu_bwd, QGELU_BWD)                                                                                            \
    X(relu_bwd, RELU_BWD)                                                                                              \
    X(srelu_bwd, SRELU_BWD)                                                                                            \
    X(silu_bwd, SILU_BWD)                                                                                              \
    X(gelu_bwd_bias, GELU_BWD_BIAS)                                                                                    \
    X(qgelu_bwd_bias, QGELU_BWD_BIAS)                                                                                  \
    X(relu_bwd_bias, RELU_BWD_BIAS)                                                                                    \
    X(srelu_bwd_bias, SRELU_BWD_BIAS)                                                                                  \
    X(silu_bwd_bias, SILU_BWD_BIAS)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_ACTIVATION_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
