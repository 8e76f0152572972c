// What the files of this folder bring: the functions of one implementation for each op.
#pragma once

#include "opdock/plugin.hpp"

namespace cpu {

struct Implementation {
    opdock_kernel kernel;
    decltype(opdock_impl::supports) supports;
    decltype(opdock_impl::workspace_size) workspace_size = nullptr;
};

// rmsnorm.cpp, rmsnorm_bwd.cpp, layernorm.cpp
extern const Implementation rmsnorm_fwd, fused_add_rmsnorm_fwd, rmsnorm_bwd, rmsnorm_bwd_add;
extern const Implementation layernorm_fwd, layernorm_bwd;
// activation.cpp
extern const Implementation gelu, qgelu, relu, silu, srelu;
extern const Implementation gelu_bwd, qgelu_bwd, relu_bwd, silu_bwd, srelu_bwd;
// activation_bias.cpp
extern const Implementation gelu_bwd_bias, qgelu_bwd_bias, relu_bwd_bias, silu_bwd_bias, srelu_bwd_bias;
// gated.cpp
extern const Implementation geglu, qgeglu, reglu, sreglu, swiglu, clamped_swiglu;
extern const Implementation geglu_bwd, qgeglu_bwd, reglu_bwd, sreglu_bwd, swiglu_bwd, clamped_swiglu_bwd;
// gated_tensors.cpp
extern const Implementation gelu_and_mul, silu_and_mul, gelu_and_mul_bwd, silu_and_mul_bwd;
// softmax.cpp
extern const Implementation scaled_softmax_fwd, scaled_softmax_bwd;
extern const Implementation scaled_masked_softmax_fwd, scaled_masked_softmax_bwd;
extern const Implementation scaled_upper_triang_masked_softmax_fwd, scaled_upper_triang_masked_softmax_bwd;
extern const Implementation scaled_aligned_causal_masked_softmax_fwd, scaled_aligned_causal_masked_softmax_bwd;
// rope.cpp
extern const Implementation fused_rope_fwd, fused_rope_bwd, fused_rope_qk_fwd, fused_rope_qk_bwd;
// elementwise.cpp
extern const Implementation add, mul;
// dropout.cpp, quantize.cpp
extern const Implementation dropout_fwd, dropout_bwd, quantize, dequantize;
// linear.cpp, matmul.cpp
extern const Implementation linear_fwd, linear_dgrad, linear_wgrad, matmul;
// cross_entropy.cpp
extern const Implementation cross_entropy_fwd, cross_entropy_bwd, fused_cross_entropy;
// optimizer.cpp, multi_tensor.cpp
extern const Implementation multi_tensor_adam, multi_tensor_sgd, multi_tensor_l2norm, multi_tensor_scale;

} // namespace cpu
