/* SPDX-License-Identifier: Apache-2.0 */
/* The standard ops: names, signatures and what they compute. One header per family:
 *
 *   ops/normalization.h  rmsnorm, layernorm and their fusions
 *   ops/activation.h     gelu, qgelu, relu, srelu, silu
 *   ops/gated.h          geglu ... swiglu, silu_and_mul, gelu_and_mul
 *   ops/softmax.h        scaled_*_softmax_*
 *   ops/rope.h           fused_rope_*
 *   ops/linear.h         matmul, linear_*
 *   ops/loss.h           cross entropy
 *   ops/elementwise.h    add, mul, dropout, quantize, dequantize
 *   ops/optimizer.h      multi_tensor_*
 *
 * OPDOCK_OP_RMSNORM_FWD is the full signature of rmsnorm_fwd as a string literal; in C++, opdock::ops::rmsnorm_fwd
 * holds name and signature. Declaring an op with the standard text is what makes implementations of several plugins
 * interchangeable.
 *
 * T and U range over f32, f16 and bf16; an implementation lists the tuples that it takes (U is T or f32). Formulas are
 * meant in exact arithmetic: sums and statistics accumulate in f32 or better, results are rounded once. */
#ifndef OPDOCK_STANDARD_OPS_H
#define OPDOCK_STANDARD_OPS_H

/* IWYU pragma: begin_exports */
#include "opdock/ops/activation.h"
#include "opdock/ops/elementwise.h"
#include "opdock/ops/gated.h"
#include "opdock/ops/linear.h"
#include "opdock/ops/loss.h"
#include "opdock/ops/normalization.h"
#include "opdock/ops/optimizer.h"
#include "opdock/ops/rope.h"
#include "opdock/ops/softmax.h"
/* IWYU pragma: end_exports */

/* X(name, NAME) for each standard op. */
#define OPDOCK_STANDARD_OPS(X)                                                                                         \
    OPDOCK_ACTIVATION_OPS(X)                                                                                           \
    OPDOCK_ELEMENTWISE_OPS(X)                                                                                          \
    OPDOCK_GATED_OPS(X)                                                                                                \
    OPDOCK_LINEAR_OPS(X)                                                                                               \
    OPDOCK_LOSS_OPS(X)                                                                                                 \
    OPDOCK_NORMALIZATION_OPS(X)                                                                                        \
    OPDOCK_OPTIMIZER_OPS(X)                                                                                            \
    OPDOCK_ROPE_OPS(X)                                                                                                 \
    OPDOCK_SOFTMAX_OPS(X)

#endif
