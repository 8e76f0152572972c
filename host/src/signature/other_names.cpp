#include "signature/other_names.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "signature/standard_ops.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Sorted. If a row has several ops, the choice depends on what the caller needs.
constexpr std::array table = {
    OtherName{"_fused_adam_", "PyTorch", "multi_tensor_adam"},
    OtherName{"_grouped_mm", "PyTorch", "grouped_linear_fwd"},
    OtherName{"_log_softmax", "PyTorch", "log_softmax_fwd"},
    OtherName{"_log_softmax_backward_data", "PyTorch", "log_softmax_bwd"},
    OtherName{"_scaled_dot_product_flash_attention", "PyTorch", "attention_fwd"},
    OtherName{"_scaled_dot_product_flash_attention_backward", "PyTorch", "attention_bwd"},
    OtherName{"_scaled_mm", "PyTorch", "linear_fp8 linear_fp8_block"},
    OtherName{"_softmax", "PyTorch", "scaled_softmax_fwd"},
    OtherName{"_softmax_backward_data", "PyTorch", "scaled_softmax_bwd"},
    OtherName{"act_quant", "DeepSeek", "quantize_1x128"},
    OtherName{"adamw", "PyTorch", "multi_tensor_adam"},
    OtherName{"addmm", "PyTorch", "linear_fwd"},
    OtherName{"addmm_out", "FlagGems", "linear_fwd"},
    OtherName{"append_paged_kv_cache", "FlashInfer", "kv_cache_append"},
    OtherName{"apply_rope_pos_ids", "FlashInfer", "rope_qk_positions"},
    OtherName{"apply_rope_with_cos_sin_cache", "FlashInfer", "rope_qk_positions"},
    OtherName{"apply_rotary_pos_emb", "FlagGems", "fused_rope_qk_fwd rope_qk_positions"},
    OtherName{"bmm", "PyTorch", "matmul"},
    OtherName{"clamped_dswiglu", "Transformer Engine", "clamped_swiglu_bwd"},
    OtherName{"cross_entropy", "Liger-Kernel", "cross_entropy_fwd fused_cross_entropy"},
    OtherName{"cross_entropy_backward", "Liger-Kernel", "cross_entropy_bwd"},
    OtherName{"cross_entropy_forward", "Liger-Kernel", "cross_entropy_fwd fused_cross_entropy"},
    OtherName{"cross_entropy_loss", "FlagGems", "cross_entropy_fwd"},
    OtherName{"cutlass_scaled_mm", "vLLM", "linear_fp8"},
    OtherName{"dbias_dgelu", "Transformer Engine", "gelu_bwd_bias"},
    OtherName{"dbias_dqgelu", "Transformer Engine", "qgelu_bwd_bias"},
    OtherName{"dbias_drelu", "Transformer Engine", "relu_bwd_bias"},
    OtherName{"dbias_dsilu", "Transformer Engine", "silu_bwd_bias"},
    OtherName{"dbias_dsrelu", "Transformer Engine", "srelu_bwd_bias"},
    OtherName{"dgeglu", "Transformer Engine", "geglu_bwd"},
    OtherName{"dgelu", "Transformer Engine", "gelu_bwd"},
    OtherName{"dqgeglu", "Transformer Engine", "qgeglu_bwd"},
    OtherName{"dqgelu", "Transformer Engine", "qgelu_bwd"},
    OtherName{"dreglu", "Transformer Engine", "reglu_bwd"},
    OtherName{"drelu", "Transformer Engine", "relu_bwd"},
    OtherName{"dsilu", "Transformer Engine", "silu_bwd"},
    OtherName{"dsreglu", "Transformer Engine", "sreglu_bwd"},
    OtherName{"dsrelu", "Transformer Engine", "srelu_bwd"},
    OtherName{"dswiglu", "Transformer Engine", "swiglu_bwd"},
    OtherName{"dynamic_per_token_scaled_fp8_quant", "vLLM", "quantize_per_token"},
    OtherName{"dynamic_scaled_int8_quant", "vLLM", "quantize_per_token"},
    OtherName{"embedding_backward", "FlagGems", "embedding_bwd"},
    OtherName{"embedding_dense_backward", "PyTorch", "embedding_bwd"},
    OtherName{"flash_attention_forward", "FlagGems", "attention_fwd"},
    OtherName{"flash_attn_func", "FlashAttention", "attention_fwd"},
    OtherName{"flash_attn_varlen_func", "FlashAttention", "attention_fwd"},
    OtherName{"flash_attn_with_kvcache", "FlashAttention", "attention_decode kv_cache_append"},
    OtherName{"fp8_blockwise_scaled_mm", "SGLang", "linear_fp8_block"},
    OtherName{"fp8_gemm", "DeepSeek", "linear_fp8_block"},
    OtherName{"fp8_gemm_nt", "DeepGEMM", "linear_fp8_block"},
    OtherName{"fused_adam", "Apex", "multi_tensor_adam"},
    OtherName{"fused_add_rms_norm", "FlagGems", "fused_add_rmsnorm_fwd"},
    OtherName{"fused_add_rms_norm_backward", "Liger-Kernel", "rmsnorm_bwd_add"},
    OtherName{"fused_add_rms_norm_forward", "Liger-Kernel", "fused_add_rmsnorm_fwd"},
    OtherName{"fused_linear_cross_entropy_forward", "Liger-Kernel", "fused_linear_cross_entropy"},
    OtherName{"fused_qk_norm_rope", "vLLM", "qk_norm_rope"},
    OtherName{"fused_rope_backward", "Transformer Engine", "fused_rope_bwd"},
    OtherName{"fused_rope_forward", "Transformer Engine", "fused_rope_fwd"},
    OtherName{"fused_sgd", "Apex", "multi_tensor_sgd"},
    OtherName{"fused_topk_with_score_function", "TransformerEngine-FL", "topk_sigmoid_fwd topk_softmax_fwd"},
    OtherName{"geglu_backward", "Liger-Kernel", "gelu_and_mul_bwd"},
    OtherName{"geglu_forward", "Liger-Kernel", "gelu_and_mul"},
    OtherName{"gelu_backward", "PyTorch", "gelu_bwd"},
    OtherName{"gemm", "TransformerEngine-FL", "linear_fwd linear_dgrad linear_wgrad matmul"},
    OtherName{"gemm_fp8_nt_groupwise", "FlashInfer", "linear_fp8_block"},
    OtherName{"general_grouped_gemm", "TransformerEngine-FL",
              "grouped_linear_fwd grouped_linear_dgrad grouped_linear_wgrad"},
    OtherName{"generic_gemm", "TransformerEngine-FL", "linear_fwd linear_dgrad linear_wgrad matmul"},
    OtherName{"gmm", "Megatron-LM", "grouped_linear_fwd"},
    OtherName{"group_norm", "FlagGems", "group_norm_fwd"},
    OtherName{"group_norm_backward", "Liger-Kernel", "group_norm_bwd"},
    OtherName{"group_norm_forward", "Liger-Kernel", "group_norm_fwd"},
    OtherName{"jsd_backward", "Liger-Kernel", "jsd_bwd"},
    OtherName{"jsd_forward", "Liger-Kernel", "jsd"},
    OtherName{"kldiv_backward", "Liger-Kernel", "kl_div_bwd"},
    OtherName{"kldiv_forward", "Liger-Kernel", "kl_div"},
    OtherName{"kldiv_loss", "Liger-Kernel", "kl_div"},
    OtherName{"l2norm", "flash-linear-attention", "l2norm_fwd"},
    OtherName{"layer_norm", "FlagGems", "layernorm_fwd"},
    OtherName{"layer_norm_backward", "Liger-Kernel", "layernorm_bwd"},
    OtherName{"layer_norm_forward", "Liger-Kernel", "layernorm_fwd"},
    OtherName{"liger_geglu", "Liger-Kernel", "gelu_and_mul"},
    OtherName{"liger_rotary_pos_emb", "Liger-Kernel", "fused_rope_qk_fwd"},
    OtherName{"liger_swiglu", "Liger-Kernel", "silu_and_mul"},
    OtherName{"linear", "PyTorch", "linear_fwd"},
    OtherName{"log_softmax", "FlagGems", "log_softmax_fwd"},
    OtherName{"log_softmax_backward", "FlagGems", "log_softmax_bwd"},
    OtherName{"mm", "PyTorch", "matmul"},
    OtherName{"moe_align_block_size", "vLLM", "moe_align"},
    OtherName{"moe_fused_gate", "SGLang", "topk_sigmoid_fwd"},
    OtherName{"moe_permute_fwd", "TransformerEngine-FL", "moe_align moe_permute"},
    OtherName{"moe_sum", "vLLM", "moe_unpermute"},
    OtherName{"moe_unpermute_fwd", "TransformerEngine-FL", "moe_unpermute"},
    OtherName{"native_dropout", "PyTorch", "dropout_fwd"},
    OtherName{"native_dropout_backward", "PyTorch", "dropout_bwd"},
    OtherName{"native_group_norm", "PyTorch", "group_norm_fwd"},
    OtherName{"native_group_norm_backward", "PyTorch", "group_norm_bwd"},
    OtherName{"native_layer_norm", "PyTorch", "layernorm_fwd"},
    OtherName{"native_layer_norm_backward", "PyTorch", "layernorm_bwd"},
    OtherName{"paged_attention_v1", "vLLM", "attention_decode"},
    OtherName{"per_block_cast_to_fp8", "DeepGEMM", "quantize_128x128"},
    OtherName{"per_token_cast_to_fp8", "DeepGEMM", "quantize_1x128"},
    OtherName{"per_token_group_quant_fp8", "vLLM", "quantize_1x128"},
    OtherName{"per_token_quant_int8", "SGLang", "quantize_per_token"},
    OtherName{"permute", "Megatron-LM", "moe_align moe_permute permute_021"},
    OtherName{"relu_squared_backward", "Liger-Kernel", "srelu_bwd"},
    OtherName{"relu_squared_forward", "Liger-Kernel", "srelu"},
    OtherName{"reshape_and_cache_flash", "vLLM", "kv_cache_append"},
    OtherName{"rms_norm", "FlagGems", "rmsnorm_fwd"},
    OtherName{"rms_norm_backward", "Liger-Kernel", "rmsnorm_bwd"},
    OtherName{"rms_norm_dynamic_per_token_quant", "vLLM", "rmsnorm_quantize"},
    OtherName{"rms_norm_forward", "Liger-Kernel", "rmsnorm_fwd"},
    OtherName{"rope", "Liger-Kernel", "fused_rope_fwd fused_rope_qk_fwd"},
    OtherName{"rope_backward", "Liger-Kernel", "fused_rope_qk_bwd"},
    OtherName{"rope_forward", "Liger-Kernel", "fused_rope_qk_fwd"},
    OtherName{"rope_fwd", "FlagGems", "fused_rope_fwd"},
    OtherName{"rotary_embedding", "vLLM", "rope_positions rope_qk_positions"},
    OtherName{"scaled_aligned_causal_masked_softmax_backward", "Transformer Engine",
              "scaled_aligned_causal_masked_softmax_bwd"},
    OtherName{"scaled_aligned_causal_masked_softmax_forward", "Transformer Engine",
              "scaled_aligned_causal_masked_softmax_fwd"},
    OtherName{"scaled_dot_product_attention", "PyTorch", "attention_fwd"},
    OtherName{"scaled_masked_softmax_backward", "Transformer Engine", "scaled_masked_softmax_bwd"},
    OtherName{"scaled_masked_softmax_forward", "Transformer Engine", "scaled_masked_softmax_fwd"},
    OtherName{"scaled_softmax_backward", "Transformer Engine", "scaled_softmax_bwd"},
    OtherName{"scaled_softmax_forward", "Transformer Engine", "scaled_softmax_fwd"},
    OtherName{"scaled_upper_triang_masked_softmax_backward", "Transformer Engine",
              "scaled_upper_triang_masked_softmax_bwd"},
    OtherName{"scaled_upper_triang_masked_softmax_forward", "Transformer Engine",
              "scaled_upper_triang_masked_softmax_fwd"},
    OtherName{"sgl_per_token_group_quant_fp8", "SGLang", "quantize_1x128"},
    OtherName{"sgl_per_token_quant_fp8", "SGLang", "quantize_per_token"},
    OtherName{"shuffle_rows", "vLLM", "moe_permute"},
    OtherName{"silu_and_mul_out", "FlagGems", "silu_and_mul"},
    OtherName{"silu_and_mul_quant", "vLLM", "silu_and_mul_quantize"},
    OtherName{"silu_backward", "PyTorch", "silu_bwd"},
    OtherName{"single_prefill_with_kv_cache", "FlashInfer", "attention_fwd"},
    OtherName{"softmax", "FlagGems", "scaled_softmax_fwd"},
    OtherName{"swiglu_backward", "Liger-Kernel", "silu_and_mul_bwd"},
    OtherName{"swiglu_forward", "Liger-Kernel", "silu_and_mul"},
    OtherName{"threshold_backward", "PyTorch", "relu_bwd"},
    OtherName{"top_k_top_p_sampling_from_logits", "FlashInfer", "sample_top_k_top_p"},
    OtherName{"top_k_top_p_sampling_from_probs", "FlashInfer", "sample_top_k_top_p"},
    OtherName{"topk_sigmoid", "vLLM", "topk_sigmoid_fwd"},
    OtherName{"topk_softmax", "vLLM", "topk_softmax_fwd"},
    OtherName{"unpermute", "Megatron-LM", "moe_unpermute"},
    OtherName{"w8a8_block_fp8_matmul", "vLLM", "linear_fp8_block"},
};
static_assert(std::ranges::is_sorted(table, {}, &OtherName::name));

// Prefixes and suffixes that libraries add to the names of functions.
constexpr std::array<std::string_view, 10> prefixes = {"apex_", "aten::", "flag_gems_", "liger_",  "nvte_",
                                                       "te_",   "tex_",   "torch_",     "triton_", "vllm_"};
constexpr std::array<std::string_view, 6> suffixes = {"_cuda", "_function", "_impl", "_kernel", "_op", "_triton"};

const OtherName *find(std::string_view name) {
    const auto *const row = std::ranges::lower_bound(table, name, {}, &OtherName::name);
    return row != table.end() && row->name == name ? row : nullptr;
}

std::string_view ops_in_table(std::string_view name) {
    const OtherName *const row = find(name);
    return row == nullptr ? std::string_view() : row->ops;
}

// "liger_rms_norm" for "LigerRMSNorm".
std::string in_snake_case(std::string_view name) {
    const auto is_upper = [&](size_t i) { return i < name.size() && name[i] >= 'A' && name[i] <= 'Z'; };
    std::string words;
    for (size_t i = 0; i < name.size(); ++i) {
        const bool ends_capitals = i + 1 < name.size() && name[i + 1] >= 'a' && name[i + 1] <= 'z';
        const bool begins_word = i > 0 && is_upper(i) && name[i - 1] != '_' && (!is_upper(i - 1) || ends_capitals);
        words += begins_word ? "_" : "";
        words += name[i];
    }
    return folded(words);
}

// Removes one of these affixes; false if the name has none.
bool take_affix(std::string_view &name) {
    for (const std::string_view prefix : prefixes) {
        if (name.starts_with(prefix)) {
            name.remove_prefix(prefix.size());
            return true;
        }
    }
    for (const std::string_view suffix : suffixes) {
        if (name.ends_with(suffix)) {
            name.remove_suffix(suffix.size());
            return true;
        }
    }
    return false;
}

} // namespace

std::span<const OtherName> other_names() {
    return table;
}

std::string_view standard_name(std::string_view name) {
    const OtherName *const row = find(name);
    return row != nullptr && row->library == "Transformer Engine" ? row->ops : name;
}

std::string_view ops_called(std::string_view name) {
    if (const std::string_view ops = ops_in_table(name); !ops.empty()) {
        return ops;
    }
    const std::string words = in_snake_case(name);
    std::string_view rest = words;
    std::string_view ops = ops_in_table(rest);
    while (ops.empty() && take_affix(rest)) {
        const std::string_view signature = standard_signature(standard_name(rest));
        ops = ops_in_table(rest);
        ops = ops.empty() ? signature.substr(0, signature.find('(')) : ops;
    }
    return ops;
}

std::string other_name_hint(std::string_view name) {
    const std::string_view called = ops_called(name);
    if (called.empty()) {
        return "";
    }
    std::vector<std::string_view> ops;
    for (size_t begin = 0; begin < called.size();) {
        const size_t end = std::min(called.find(' ', begin), called.size());
        ops.push_back(called.substr(begin, end - begin));
        begin = end + 1;
    }
    return ops.size() == 1 ? "; opdock calls that " + quote(ops.front()) + "."
                           : "; opdock has " + one_of(ops) + " for that.";
}

std::string hint_at_op(std::string_view name, std::span<const std::string_view> known_ops) {
    const std::string hint = other_name_hint(name);
    return hint.empty() ? did_you_mean(name, known_ops) : hint;
}

} // namespace opdock::core
