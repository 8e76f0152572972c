/* SPDX-License-Identifier: Apache-2.0 */
/* The standard ops: names, signatures and what they compute. There is one header for each family.
 *
 * OPDOCK_OP_RMSNORM_FWD is the full signature of rmsnorm_fwd as a string literal; in C++, opdock::ops::rmsnorm_fwd
 * holds name and signature. Implementations of several plugins are interchangeable because all declare an op with the
 * standard text.
 *
 * T and U range over f32, f16 and bf16; an implementation lists the tuples that it takes (U is T or f32). Formulas
 * assume exact arithmetic: sums and statistics accumulate in f32 or better, results are rounded once. */
#ifndef OPDOCK_STANDARD_OPS_H
#define OPDOCK_STANDARD_OPS_H

/* IWYU pragma: begin_exports */
#include "opdock/ops/activation.h"    /* gelu, qgelu, relu, srelu, silu */
#include "opdock/ops/attention.h"     /* attention_*, kv_cache_append */
#include "opdock/ops/elementwise.h"   /* add, mul, dropout, quantize, dequantize */
#include "opdock/ops/gated.h"         /* geglu ... swiglu, silu_and_mul, gelu_and_mul */
#include "opdock/ops/indexing.h"      /* embedding, permute_021, topk_softmax */
#include "opdock/ops/linear.h"        /* matmul, linear_* */
#include "opdock/ops/loss.h"          /* cross entropy */
#include "opdock/ops/moe.h"           /* topk_sigmoid, moe_* */
#include "opdock/ops/normalization.h" /* rmsnorm, layernorm and their fusions */
#include "opdock/ops/optimizer.h"     /* multi_tensor_* */
#include "opdock/ops/rope.h"          /* fused_rope_*, rope_*positions, qk_norm_rope */
#include "opdock/ops/sampling.h"      /* sample_top_k_top_p */
#include "opdock/ops/softmax.h"       /* scaled_*_softmax_* */
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
    OPDOCK_SOFTMAX_OPS(X)                                                                                              \
    OPDOCK_INDEXING_OPS(X)                                                                                             \
    OPDOCK_ATTENTION_OPS(X)                                                                                            \
    OPDOCK_MOE_OPS(X)                                                                                                  \
    OPDOCK_SAMPLING_OPS(X)

#endif
