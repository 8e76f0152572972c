// The files of this folder; each has a function that adds its ops to the plugin.
#pragma once

#include "implementation.hpp"

namespace gpu {

void add_activations(Plugin &plugin);       // activation.cu
void add_activation_biases(Plugin &plugin); // activation_bias.cu
void add_attention(Plugin &plugin);         // attention.cu
void add_attention_bwd(Plugin &plugin);
void add_attention_cudnn(Plugin &plugin);     // attention_cudnn.cu
void add_attention_decode(Plugin &plugin);    // attention_decode.cu
void add_choice(Plugin &plugin);              // choice.cu
void add_cross_entropy(Plugin &plugin);       // cross_entropy.cu
void add_divergence(Plugin &plugin);          // divergence.cu
void add_dropout(Plugin &plugin);             // dropout.cu
void add_elementwise(Plugin &plugin);         // elementwise.cu
void add_embedding(Plugin &plugin);           // embedding.cu
void add_fused_cross_entropy(Plugin &plugin); // fused_cross_entropy.cu
void add_gated(Plugin &plugin);               // gated.cu
void add_group_norm(Plugin &plugin);          // group_norm.cu
void add_grouped_linear(Plugin &plugin);      // grouped_linear.cu
void add_l2norm(Plugin &plugin);              // l2norm.cu
void add_linear(Plugin &plugin);              // linear.cu
void add_linear_fp8(Plugin &plugin);          // linear_fp8.cu
void add_linear_loss(Plugin &plugin);         // linear_cross_entropy.cu
void add_log_softmax(Plugin &plugin);         // log_softmax.cu
void add_moe(Plugin &plugin);                 // moe.cu
void add_multi_tensor(Plugin &plugin);        // multi_tensor.cu
void add_normalization(Plugin &plugin);       // normalization.cu
void add_normalization_bwd(Plugin &plugin);   // normalization_bwd.cu
void add_optimizers(Plugin &plugin);          // optimizer.cu
void add_permute(Plugin &plugin);             // permute.cu
void add_qk_norm_rope(Plugin &plugin);        // qk_norm_rope.cu
void add_quantization(Plugin &plugin);        // quantize.cu
void add_quantize_blocks(Plugin &plugin);     // quantize_blocks.cu
void add_quantize_fused(Plugin &plugin);      // quantize_fused.cu
void add_quantize_per_token(Plugin &plugin);  // quantize_per_token.cu
void add_rope(Plugin &plugin);                // rope.cu
void add_sampling(Plugin &plugin);            // sampling.cu
void add_softmax(Plugin &plugin);             // softmax.cu
void add_topk(Plugin &plugin);                // topk.cu

} // namespace gpu
