// The plugin 'reference': every op as its definition reads, in double precision, one element after the other. It takes
// any strides and rounds once, when it stores, so that it can be trusted where a faster implementation is in doubt.
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

#include "heuristics.hpp"
#include "ops/ops.hpp"

OPDOCK_NOTE("reference", "1.0.0", "opdock", "cpu", "")

namespace {

using opdock::Impl;
using opdock::kernel;
namespace ops = opdock::ops;

void register_all(opdock::Registry &registry) {
    const Impl reference = Impl("reference.cpp").kind(OPDOCK_KIND_REFERENCE).deterministic().batch_invariant();
    // T, and T with U where weights have a dtype of their own.
    const Impl one_dtype = Impl(reference).dtypes("f32|f16|bf16");
    const Impl two_dtypes = Impl(reference).dtypes("f32,f32|f16,f16|f16,f32|bf16,bf16|bf16,f32");

    const auto serve = [&](const opdock::OpDeclaration &op, opdock_kernel function, const Impl &start) {
        registry.implement(op, Impl(start).kernel(function));
    };

    serve(ops::rmsnorm_fwd, kernel<&reference::rmsnorm_fwd>, two_dtypes);
    serve(ops::rmsnorm_bwd, kernel<&reference::rmsnorm_bwd>, two_dtypes);
    serve(ops::rmsnorm_bwd_add, kernel<&reference::rmsnorm_bwd_add>, two_dtypes);
    serve(ops::fused_add_rmsnorm_fwd, kernel<&reference::fused_add_rmsnorm_fwd>, two_dtypes);
    serve(ops::layernorm_fwd, kernel<&reference::layernorm_fwd>, two_dtypes);
    serve(ops::layernorm_bwd, kernel<&reference::layernorm_bwd>, two_dtypes);

    serve(ops::gelu, kernel<&reference::gelu>, one_dtype);
    serve(ops::qgelu, kernel<&reference::qgelu>, one_dtype);
    serve(ops::relu, kernel<&reference::relu>, one_dtype);
    serve(ops::silu, kernel<&reference::silu>, one_dtype);
    serve(ops::srelu, kernel<&reference::srelu>, one_dtype);
    serve(ops::gelu_bwd, kernel<&reference::gelu_bwd>, one_dtype);
    serve(ops::qgelu_bwd, kernel<&reference::qgelu_bwd>, one_dtype);
    serve(ops::relu_bwd, kernel<&reference::relu_bwd>, one_dtype);
    serve(ops::silu_bwd, kernel<&reference::silu_bwd>, one_dtype);
    serve(ops::srelu_bwd, kernel<&reference::srelu_bwd>, one_dtype);
    serve(ops::gelu_bwd_bias, kernel<&reference::gelu_bwd_bias>, one_dtype);
    serve(ops::qgelu_bwd_bias, kernel<&reference::qgelu_bwd_bias>, one_dtype);
    serve(ops::relu_bwd_bias, kernel<&reference::relu_bwd_bias>, one_dtype);
    serve(ops::silu_bwd_bias, kernel<&reference::silu_bwd_bias>, one_dtype);
    serve(ops::srelu_bwd_bias, kernel<&reference::srelu_bwd_bias>, one_dtype);

    serve(ops::geglu, kernel<&reference::geglu>, one_dtype);
    serve(ops::qgeglu, kernel<&reference::qgeglu>, one_dtype);
    serve(ops::reglu, kernel<&reference::reglu>, one_dtype);
    serve(ops::sreglu, kernel<&reference::sreglu>, one_dtype);
    serve(ops::swiglu, kernel<&reference::swiglu>, one_dtype);
    serve(ops::clamped_swiglu, kernel<&reference::clamped_swiglu>, one_dtype);
    serve(ops::geglu_bwd, kernel<&reference::geglu_bwd>, one_dtype);
    serve(ops::qgeglu_bwd, kernel<&reference::qgeglu_bwd>, one_dtype);
    serve(ops::reglu_bwd, kernel<&reference::reglu_bwd>, one_dtype);
    serve(ops::sreglu_bwd, kernel<&reference::sreglu_bwd>, one_dtype);
    serve(ops::swiglu_bwd, kernel<&reference::swiglu_bwd>, one_dtype);
    serve(ops::clamped_swiglu_bwd, kernel<&reference::clamped_swiglu_bwd>, one_dtype);
    serve(ops::gelu_and_mul, kernel<&reference::gelu_and_mul>, one_dtype);
    serve(ops::silu_and_mul, kernel<&reference::silu_and_mul>, one_dtype);
    serve(ops::gelu_and_mul_bwd, kernel<&reference::gelu_and_mul_bwd>, one_dtype);
    serve(ops::silu_and_mul_bwd, kernel<&reference::silu_and_mul_bwd>, one_dtype);

    serve(ops::scaled_softmax_fwd, kernel<&reference::scaled_softmax_fwd>, one_dtype);
    serve(ops::scaled_softmax_bwd, kernel<&reference::scaled_softmax_bwd>, one_dtype);
    serve(ops::scaled_masked_softmax_fwd, kernel<&reference::scaled_masked_softmax_fwd>, one_dtype);
    serve(ops::scaled_masked_softmax_bwd, kernel<&reference::scaled_masked_softmax_bwd>, one_dtype);
    serve(ops::scaled_upper_triang_masked_softmax_fwd, kernel<&reference::scaled_upper_triang_masked_softmax_fwd>,
          one_dtype);
    serve(ops::scaled_upper_triang_masked_softmax_bwd, kernel<&reference::scaled_upper_triang_masked_softmax_bwd>,
          one_dtype);
    serve(ops::scaled_aligned_causal_masked_softmax_fwd, kernel<&reference::scaled_aligned_causal_masked_softmax_fwd>,
          one_dtype);
    serve(ops::scaled_aligned_causal_masked_softmax_bwd, kernel<&reference::scaled_aligned_causal_masked_softmax_bwd>,
          one_dtype);

    const Impl rope = Impl(one_dtype).supports(opdock::supports<&reference::supports_rope>);
    serve(ops::fused_rope_fwd, kernel<&reference::fused_rope_fwd>, rope);
    serve(ops::fused_rope_bwd, kernel<&reference::fused_rope_bwd>, rope);
    serve(ops::fused_rope_qk_fwd, kernel<&reference::fused_rope_qk_fwd>, rope);
    serve(ops::fused_rope_qk_bwd, kernel<&reference::fused_rope_qk_bwd>, rope);

    serve(ops::matmul, kernel<&reference::matmul>, one_dtype);
    serve(ops::linear_dgrad, kernel<&reference::linear_dgrad>, one_dtype);
    serve(ops::linear_wgrad, kernel<&reference::linear_wgrad>, one_dtype);
    serve(ops::linear_fwd, kernel<&reference::linear_fwd>,
          Impl(one_dtype)
              .knob("panel_rows", 1, 4096, 64, "Rows of the weight that are widened to double at a time.")
              .heuristic(opdock::heuristic<&reference::panel_rows_for_cache>)
              .tune_version(1));

    serve(ops::cross_entropy_fwd, kernel<&reference::cross_entropy_fwd>, one_dtype);
    serve(ops::cross_entropy_bwd, kernel<&reference::cross_entropy_bwd>, one_dtype);
    serve(ops::fused_cross_entropy, kernel<&reference::fused_cross_entropy>, one_dtype);

    serve(ops::add, kernel<&reference::add>, one_dtype);
    serve(ops::mul, kernel<&reference::mul>, one_dtype);

    const Impl dropout = Impl(one_dtype).supports(opdock::supports<&reference::supports_dropout>);
    serve(ops::dropout_fwd, kernel<&reference::dropout_fwd>, dropout);
    serve(ops::dropout_bwd, kernel<&reference::dropout_bwd>, dropout);

    serve(ops::quantize, kernel<&reference::quantize>,
          Impl(reference).dtypes("f32,e4m3|f32,e5m2|f16,e4m3|f16,e5m2|bf16,e4m3|bf16,e5m2"));
    serve(ops::dequantize, kernel<&reference::dequantize>,
          Impl(reference).dtypes("e4m3,f32|e5m2,f32|e4m3,f16|e5m2,f16|e4m3,bf16|e5m2,bf16"));

    serve(ops::multi_tensor_adam, kernel<&reference::multi_tensor_adam>, two_dtypes);
    serve(ops::multi_tensor_sgd, kernel<&reference::multi_tensor_sgd>, two_dtypes);
    serve(ops::multi_tensor_l2norm, kernel<&reference::multi_tensor_l2norm>, one_dtype);
    serve(ops::multi_tensor_scale, kernel<&reference::multi_tensor_scale>, one_dtype);
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
