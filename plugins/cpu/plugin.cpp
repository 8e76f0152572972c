// The default implementations on CPUs: default.cpu.
#include "opdock/plugin.hpp"
#include "heuristics.hpp"
#include "ops/ops.hpp"

OPDOCK_NOTE("cpu", CPU_PLUGIN_VERSION, "opdock", "cpu", "")

void cpu::Plugin::add(const opdock::OpDeclaration &op, const char *dtypes, const Implementation &functions) {
    opdock::Impl impl("default.cpu");
    impl.kind(OPDOCK_KIND_DEFAULT)
        .device("cpu")
        .dtypes(dtypes)
        .deterministic()
        .tune_version(1)
        .knob("grain_kib", 1, 1 << 20, 256,
              "KiB of tensor data per task; a call with no more data runs on the calling thread")
        .bool_knob("stream", false, "write outputs past the caches; pays if outputs are much larger than the caches")
        .heuristic(opdock::heuristic<&heuristic>)
        .kernel(functions.kernel)
        .supports(functions.supports)
        .workspace_size(functions.workspace_size);
    registry_.implement(op, impl);
}

namespace {

void register_all(opdock::Registry &registry) {
    cpu::Plugin plugin(registry);
    cpu::add_activation(plugin);
    cpu::add_activation_bias(plugin);
    cpu::add_attention(plugin);
    cpu::add_attention_bwd(plugin);
    cpu::add_cross_entropy(plugin);
    cpu::add_divergence(plugin);
    cpu::add_dropout(plugin);
    cpu::add_elementwise(plugin);
    cpu::add_embedding(plugin);
    cpu::add_gated(plugin);
    cpu::add_gated_tensors(plugin);
    cpu::add_group_norm(plugin);
    cpu::add_grouped_linear(plugin);
    cpu::add_l2norm(plugin);
    cpu::add_layernorm(plugin);
    cpu::add_linear(plugin);
    cpu::add_linear_cross_entropy(plugin);
    cpu::add_linear_fp8(plugin);
    cpu::add_log_softmax(plugin);
    cpu::add_matmul(plugin);
    cpu::add_moe(plugin);
    cpu::add_multi_tensor(plugin);
    cpu::add_optimizer(plugin);
    cpu::add_permute(plugin);
    cpu::add_qk_norm_rope(plugin);
    cpu::add_quantize(plugin);
    cpu::add_quantize_fused(plugin);
    cpu::add_quantize_per_token(plugin);
    cpu::add_rmsnorm(plugin);
    cpu::add_rmsnorm_bwd(plugin);
    cpu::add_rope(plugin);
    cpu::add_sampling(plugin);
    cpu::add_softmax(plugin);
    cpu::add_topk(plugin);
    cpu::add_topk_sigmoid(plugin);
    cpu::add_topk_softmax(plugin);
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
