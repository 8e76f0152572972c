// vendor.cuda and vendor.hip: kernels for GPUs, and the device type that they run on.
#include <string>

#include "device.hpp"
#include "heuristics.hpp"
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"
#include "ops/ops.hpp"
#include "runtime.hpp"
#include "tensors.hpp"

// The vendor's name is the one in impl_ids, so that policies can match it: vendor:cuda.
#ifdef GPU_EMULATED
OPDOCK_NOTE("opdock_hip", GPU_PLUGIN_VERSION, "hip", "cpu", "")
#elif defined(__HIP__)
OPDOCK_NOTE("opdock_hip", GPU_PLUGIN_VERSION, "hip", "rocm", "")
#else
OPDOCK_NOTE("opdock_cuda", GPU_PLUGIN_VERSION, "cuda", "cuda", "")
#endif

namespace {

#ifdef __HIP__
constexpr const char *impl_id = "vendor.hip";
#else
constexpr const char *impl_id = "vendor.cuda";
#endif

opdock::Vendor vendor() {
#ifdef __HIP__
    return {"hip", "cuda", "CUDA", "rocm-smi"}; // PyTorch for ROCm has kept CUDA's names
#else
    return {"cuda", "cuda", "CUDA", "nvidia-smi"};
#endif
}

void add_knobs(opdock::Impl &impl, gpu::Knobs knobs) {
    switch (knobs) {
    case gpu::Knobs::none:
        return;
    case gpu::Knobs::elementwise:
        impl.knob("threads", 32, 1024, 256, "threads of a block")
            .knob("unroll", 1, 4, 2, "vectors of 16 bytes per thread and tensor: 1, 2 or 4")
            .heuristic(opdock::heuristic<&gpu::elementwise_heuristic>);
        return;
    case gpu::Knobs::rotations:
        impl.knob("threads", 32, 1024, 128, "threads of a block")
            .knob("unroll", 1, 4, 1, "rows that a thread processes at a time: 1, 2 or 4")
            .heuristic(opdock::heuristic<&gpu::rotations_heuristic>);
        return;
    case gpu::Knobs::rows:
    case gpu::Knobs::row_batches:
        impl.knob("threads", 1, 1024, 256, "threads that share a row, rounded up to a power of two")
            .knob("block", 64, 1024, 256, "threads of a block, as far as whole rows fit")
            .heuristic(knobs == gpu::Knobs::rows ? opdock::heuristic<&gpu::rows_heuristic>
                                                 : opdock::heuristic<&gpu::row_batches_heuristic>);
        return;
    case gpu::Knobs::columns:
        impl.knob("threads", 32, 512, 512, "threads of a block that share a row, rounded up to a power of two")
            .knob("blocks_per_unit", 1, 16, 1, "blocks that stay on each compute unit and loop over the rows")
            .heuristic(opdock::heuristic<&gpu::columns_heuristic>);
        return;
    }
}

} // namespace

void gpu::Plugin::add(const opdock::OpDeclaration &op, const char *dtypes, const Implementation &functions) {
    opdock::Impl impl(functions.library == nullptr ? impl_id : impl_id + std::string("-") + functions.library);
    impl.kind(OPDOCK_KIND_VENDOR)
        .device(device_name)
        .dtypes(dtypes)
        .priority(functions.library == nullptr ? 0 : 1)
        .capture_safe()
        .tune_version(1)
        .kernel(functions.kernel)
        .supports(functions.supports)
        .workspace_size(functions.workspace_size)
        .available(functions.available);
    if (functions.library != nullptr) {
        impl.alignment(16); // libraries choose their kernels before they see pointers
    }
    if (functions.deterministic) {
        impl.deterministic();
    }
    if (!functions.any_strides) {
        impl.needs_contiguous();
    }
    if (functions.device_state.init != nullptr) {
        impl.device_state(functions.device_state);
    }
    if (functions.plan.create != nullptr) {
        impl.plan(functions.plan);
    }
    add_knobs(impl, functions.knobs);
    registry_.implement(op, impl);
}

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, [](opdock::Registry &wrapped) {
        wrapped.vendor(vendor());
#ifndef GPU_EMULATED
        wrapped.device(gpu::device_table());
#endif
        gpu::Plugin plugin(wrapped);
        gpu::add_activations(plugin);
        gpu::add_activation_biases(plugin);
        gpu::add_attention(plugin);
        gpu::add_attention_bwd(plugin);
        gpu::add_attention_cudnn(plugin);
        gpu::add_attention_decode(plugin);
        gpu::add_choice(plugin);
        gpu::add_cross_entropy(plugin);
        gpu::add_divergence(plugin);
        gpu::add_dropout(plugin);
        gpu::add_elementwise(plugin);
        gpu::add_embedding(plugin);
        gpu::add_fused_cross_entropy(plugin);
        gpu::add_gated(plugin);
        gpu::add_group_norm(plugin);
        gpu::add_grouped_linear(plugin);
        gpu::add_l2norm(plugin);
        gpu::add_linear(plugin);
        gpu::add_linear_fp8(plugin);
        gpu::add_linear_loss(plugin);
        gpu::add_log_softmax(plugin);
        gpu::add_moe(plugin);
        gpu::add_multi_tensor(plugin);
        gpu::add_normalization(plugin);
        gpu::add_normalization_bwd(plugin);
        gpu::add_optimizers(plugin);
        gpu::add_permute(plugin);
        gpu::add_qk_norm_rope(plugin);
        gpu::add_quantization(plugin);
        gpu::add_quantize_blocks(plugin);
        gpu::add_quantize_fused(plugin);
        gpu::add_quantize_per_token(plugin);
        gpu::add_rope(plugin);
        gpu::add_sampling(plugin);
        gpu::add_softmax(plugin);
        gpu::add_topk(plugin);
    });
}
