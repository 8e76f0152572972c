// Each file of this folder registers its ops, with their functions and dtypes.
#pragma once

#include "dtypes.hpp"
#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

namespace cpu {

struct Implementation {
    opdock_kernel kernel;
    decltype(opdock_impl::supports) supports;
    decltype(opdock_impl::workspace_size) workspace_size = nullptr;
};

class Plugin {
  public:
    explicit Plugin(opdock::Registry &registry) : registry_(registry) {}

    // `dtypes` is a list from dtypes.hpp, or "" for an op without dtype variables.
    void add(const opdock::OpDeclaration &op, const char *dtypes, const Implementation &functions);

  private:
    opdock::Registry &registry_;
};

void add_activation(Plugin &plugin);
void add_activation_bias(Plugin &plugin);
void add_attention(Plugin &plugin);
void add_attention_bwd(Plugin &plugin);
void add_cross_entropy(Plugin &plugin);
void add_divergence(Plugin &plugin);
void add_dropout(Plugin &plugin);
void add_elementwise(Plugin &plugin);
void add_embedding(Plugin &plugin);
void add_gated(Plugin &plugin);
void add_gated_tensors(Plugin &plugin);
void add_group_norm(Plugin &plugin);
void add_grouped_linear(Plugin &plugin);
void add_l2norm(Plugin &plugin);
void add_layernorm(Plugin &plugin);
void add_linear(Plugin &plugin);
void add_linear_cross_entropy(Plugin &plugin);
void add_linear_fp8(Plugin &plugin);
void add_log_softmax(Plugin &plugin);
void add_matmul(Plugin &plugin);
void add_moe(Plugin &plugin);
void add_multi_tensor(Plugin &plugin);
void add_optimizer(Plugin &plugin);
void add_permute(Plugin &plugin);
void add_qk_norm_rope(Plugin &plugin);
void add_quantize(Plugin &plugin);
void add_quantize_fused(Plugin &plugin);
void add_quantize_per_token(Plugin &plugin);
void add_rmsnorm(Plugin &plugin);
void add_rmsnorm_bwd(Plugin &plugin);
void add_rope(Plugin &plugin);
void add_sampling(Plugin &plugin);
void add_softmax(Plugin &plugin);
void add_topk(Plugin &plugin);
void add_topk_sigmoid(Plugin &plugin);
void add_topk_softmax(Plugin &plugin);

} // namespace cpu
