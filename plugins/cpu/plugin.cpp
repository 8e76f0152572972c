// The default implementations on CPUs: default.cpu.
#include "opdock/plugin.hpp"
#include "dtypes.hpp"
#include "heuristics.hpp"
#include "opdock/standard_ops.h"
#include "ops/ops.hpp"

OPDOCK_NOTE("cpu", CPU_PLUGIN_VERSION, "opdock", "cpu", "")

namespace {

opdock::Impl implementation(const cpu::Implementation &functions, const char *dtypes) {
    opdock::Impl impl("default.cpu");
    impl.kind(OPDOCK_KIND_DEFAULT)
        .device("cpu")
        .dtypes(dtypes)
        .deterministic()
        .tune_version(1)
        .knob("grain_kib", 1, 1 << 20, 256,
              "KiB of tensor data that make a task; a call with no more runs on the calling thread")
        .bool_knob("stream", false, "write outputs past the caches; pays where they are much larger")
        .heuristic(opdock::heuristic<&cpu::heuristic>)
        .kernel(functions.kernel)
        .supports(functions.supports)
        .workspace_size(functions.workspace_size);
    return impl;
}

void register_all(opdock::Registry &registry) {
    namespace ops = opdock::ops;
    const auto serve = [&](const opdock::OpDeclaration &op, const cpu::Implementation &functions, const char *dtypes) {
        registry.implement(op, implementation(functions, dtypes));
    };
    serve(ops::rmsnorm_fwd, cpu::rmsnorm_fwd, cpu::weighted);
    serve(ops::rmsnorm_bwd, cpu::rmsnorm_bwd, cpu::weighted);
    serve(ops::rmsnorm_bwd_add, cpu::rmsnorm_bwd_add, cpu::weighted);
    serve(ops::fused_add_rmsnorm_fwd, cpu::fused_add_rmsnorm_fwd, cpu::weighted);
    serve(ops::layernorm_fwd, cpu::layernorm_fwd, cpu::weighted);
    serve(ops::layernorm_bwd, cpu::layernorm_bwd, cpu::weighted);

    serve(ops::gelu, cpu::gelu, cpu::any_float);
    serve(ops::qgelu, cpu::qgelu, cpu::any_float);
    serve(ops::relu, cpu::relu, cpu::any_float);
    serve(ops::silu, cpu::silu, cpu::any_float);
    serve(ops::srelu, cpu::srelu, cpu::any_float);
    serve(ops::gelu_bwd, cpu::gelu_bwd, cpu::any_float);
    serve(ops::qgelu_bwd, cpu::qgelu_bwd, cpu::any_float);
    serve(ops::relu_bwd, cpu::relu_bwd, cpu::any_float);
    serve(ops::silu_bwd, cpu::silu_bwd, cpu::any_float);
    serve(ops::srelu_bwd, cpu::srelu_bwd, cpu::any_float);
    serve(ops::gelu_bwd_bias, cpu::gelu_bwd_bias, cpu::any_float);
    serve(ops::qgelu_bwd_bias, cpu::qgelu_bwd_bias, cpu::any_float);
    serve(ops::relu_bwd_bias, cpu::relu_bwd_bias, cpu::any_float);
    serve(ops::silu_bwd_bias, cpu::silu_bwd_bias, cpu::any_float);
    serve(ops::srelu_bwd_bias, cpu::srelu_bwd_bias, cpu::any_float);

    serve(ops::geglu, cpu::geglu, cpu::any_float);
    serve(ops::qgeglu, cpu::qgeglu, cpu::any_float);
    serve(ops::reglu, cpu::reglu, cpu::any_float);
    serve(ops::sreglu, cpu::sreglu, cpu::any_float);
    serve(ops::swiglu, cpu::swiglu, cpu::any_float);
    serve(ops::clamped_swiglu, cpu::clamped_swiglu, cpu::any_float);
    serve(ops::geglu_bwd, cpu::geglu_bwd, cpu::any_float);
    serve(ops::qgeglu_bwd, cpu::qgeglu_bwd, cpu::any_float);
    serve(ops::reglu_bwd, cpu::reglu_bwd, cpu::any_float);
    serve(ops::sreglu_bwd, cpu::sreglu_bwd, cpu::any_float);
    serve(ops::swiglu_bwd, cpu::swiglu_bwd, cpu::any_float);
    serve(ops::clamped_swiglu_bwd, cpu::clamped_swiglu_bwd, cpu::any_float);
    serve(ops::gelu_and_mul, cpu::gelu_and_mul, cpu::any_float);
    serve(ops::silu_and_mul, cpu::silu_and_mul, cpu::any_float);
    serve(ops::gelu_and_mul_bwd, cpu::gelu_and_mul_bwd, cpu::any_float);
    serve(ops::silu_and_mul_bwd, cpu::silu_and_mul_bwd, cpu::any_float);

    serve(ops::scaled_softmax_fwd, cpu::scaled_softmax_fwd, cpu::any_float);
    serve(ops::scaled_softmax_bwd, cpu::scaled_softmax_bwd, cpu::any_float);
    serve(ops::scaled_masked_softmax_fwd, cpu::scaled_masked_softmax_fwd, cpu::any_float);
    serve(ops::scaled_masked_softmax_bwd, cpu::scaled_masked_softmax_bwd, cpu::any_float);
    serve(ops::scaled_upper_triang_masked_softmax_fwd, cpu::scaled_upper_triang_masked_softmax_fwd, cpu::any_float);
    serve(ops::scaled_upper_triang_masked_softmax_bwd, cpu::scaled_upper_triang_masked_softmax_bwd, cpu::any_float);
    serve(ops::scaled_aligned_causal_masked_softmax_fwd, cpu::scaled_aligned_causal_masked_softmax_fwd, cpu::any_float);
    serve(ops::scaled_aligned_causal_masked_softmax_bwd, cpu::scaled_aligned_causal_masked_softmax_bwd, cpu::any_float);

    serve(ops::fused_rope_fwd, cpu::fused_rope_fwd, cpu::any_float);
    serve(ops::fused_rope_bwd, cpu::fused_rope_bwd, cpu::any_float);
    serve(ops::fused_rope_qk_fwd, cpu::fused_rope_qk_fwd, cpu::any_float);
    serve(ops::fused_rope_qk_bwd, cpu::fused_rope_qk_bwd, cpu::any_float);

    serve(ops::add, cpu::add, cpu::any_float);
    serve(ops::mul, cpu::mul, cpu::any_float);
    serve(ops::dropout_fwd, cpu::dropout_fwd, cpu::any_float);
    serve(ops::dropout_bwd, cpu::dropout_bwd, cpu::any_float);
    serve(ops::quantize, cpu::quantize, cpu::to_fp8);
    serve(ops::dequantize, cpu::dequantize, cpu::from_fp8);

    serve(ops::matmul, cpu::matmul, cpu::any_float);
    serve(ops::linear_fwd, cpu::linear_fwd, cpu::any_float);
    serve(ops::linear_dgrad, cpu::linear_dgrad, cpu::any_float);
    serve(ops::linear_wgrad, cpu::linear_wgrad, cpu::any_float);

    serve(ops::cross_entropy_fwd, cpu::cross_entropy_fwd, cpu::any_float);
    serve(ops::cross_entropy_bwd, cpu::cross_entropy_bwd, cpu::any_float);
    serve(ops::fused_cross_entropy, cpu::fused_cross_entropy, cpu::any_float);

    serve(ops::multi_tensor_adam, cpu::multi_tensor_adam, cpu::weighted);
    serve(ops::multi_tensor_sgd, cpu::multi_tensor_sgd, cpu::weighted);
    serve(ops::multi_tensor_l2norm, cpu::multi_tensor_l2norm, cpu::any_float);
    serve(ops::multi_tensor_scale, cpu::multi_tensor_scale, cpu::any_float);
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
