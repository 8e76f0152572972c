/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer steps over lists of tensors, in one or a few launches for lists of any length.
 *
 * If noop is not 0, the op does nothing: step, too, stays unchanged. Values that change from step to step are tensors,
 * so that a captured graph stays correct.
 *
 * Since opdock 1.0. */
#ifndef OPDOCK_OPS_OPTIMIZER_H
#define OPDOCK_OPS_OPTIMIZER_H

#ifdef __cplusplus
#include "opdock/cpp/op.hpp"
#endif

/* step += 1; g = grads, plus weight_decay * params unless decoupled; exp_avg = beta1 * exp_avg + (1 - beta1) * g;
 * exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g^2; params -= lr * ((exp_avg / (1 - beta1^step)) /
 * (sqrt(exp_avg_sq / (1 - beta2^step)) + eps)), and also lr * weight_decay * params when decoupled. */
#define OPDOCK_OP_MULTI_TENSOR_ADAM                                                                                    \
    "multi_tensor_adam(grads: T[n]*, mut params: U[n]*, mut exp_avg: f32[n]*, mut exp_avg_sq: f32[n]*, lr: f32[1], "   \
    "mut step: f32[1], noop: i32[1]?, "                                                                                \
    "*, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0, "                      \
    "decoupled: bool = true) -> ()"

/* g = grads + weight_decay * params; with momentum, buffer = momentum * buffer + (1 - dampening) * g (g itself on
 * the first run), and the step is g + momentum * buffer with nesterov, else buffer; without, it is g. The step
 * times lr is subtracted from params. */
#define OPDOCK_OP_MULTI_TENSOR_SGD                                                                                     \
    "multi_tensor_sgd(grads: T[n]*, mut params: U[n]*, mut momentum_buffers: f32[n]*, lr: f32[1], noop: i32[1]?, "     \
    "*, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = false, "            \
    "first_run: bool = false) -> ()"

/* norm = sqrt(sum of the squares of all elements). */
#define OPDOCK_OP_MULTI_TENSOR_L2NORM "multi_tensor_l2norm(inputs: T[n]*) -> (norm: f32[1])"

/* tensors *= scale; found_inf becomes 1 if a scaled value, as stored, is not finite, and otherwise stays unchanged. */
#define OPDOCK_OP_MULTI_TENSOR_SCALE                                                                                   \
    "multi_tensor_scale(mut tensors: T[n]*, scale: f32[1], mut found_inf: i32[1]?) -> ()"

/* X(name, NAME) for each op of this header: OPDOCK_OP_NAME is its signature, opdock::ops::name its declaration. */
#define OPDOCK_OPTIMIZER_OPS(X)                                                                                        \
    X(multi_tensor_adam, MULTI_TENSOR_ADAM)                                                                            \
    X(multi_tensor_sgd, MULTI_TENSOR_SGD)                                                                              \
    X(multi_tensor_l2norm, MULTI_TENSOR_L2NORM)                                                                        \
    X(multi_tensor_scale, MULTI_TENSOR_SCALE)

#ifdef __cplusplus
namespace opdock::ops {
OPDOCK_OPTIMIZER_OPS(OPDOCK_DECLARE_OP)
} // namespace opdock::ops
#endif

#endif
