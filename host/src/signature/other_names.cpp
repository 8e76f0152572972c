#include "signature/other_names.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Where several ops are named, which one it is depends on what is asked for.
constexpr std::array table = {
    OtherName{"_fused_adam_", "PyTorch", "multi_tensor_adam"},
    OtherName{"_softmax", "PyTorch", "scaled_softmax_fwd"},
    OtherName{"_softmax_backward_data", "PyTorch", "scaled_softmax_bwd"},
    OtherName{"adamw", "PyTorch", "multi_tensor_adam"},
    OtherName{"addmm", "PyTorch", "linear_fwd"},
    OtherName{"addmm_out", "FlagGems", "linear_fwd"},
    OtherName{"apply_rotary_pos_emb", "FlagGems", "fused_rope_qk_fwd"},
    OtherName{"bmm", "PyTorch", "matmul"},
    OtherName{"cross_entropy_backward", "Liger-Kernel", "cross_entropy_bwd"},
    OtherName{"cross_entropy_forward", "Liger-Kernel", "cross_entropy_fwd fused_cross_entropy"},
    OtherName{"cross_entropy_loss", "FlagGems", "cross_entropy_fwd"},
    OtherName{"fused_add_rms_norm", "FlagGems", "fused_add_rmsnorm_fwd"},
    OtherName{"fused_add_rms_norm_backward", "Liger-Kernel", "rmsnorm_bwd_add"},
    OtherName{"fused_add_rms_norm_forward", "Liger-Kernel", "fused_add_rmsnorm_fwd"},
    OtherName{"geglu_backward", "Liger-Kernel", "gelu_and_mul_bwd"},
    OtherName{"geglu_forward", "Liger-Kernel", "gelu_and_mul"},
    OtherName{"gelu_backward", "PyTorch", "gelu_bwd"},
    OtherName{"generic_gemm", "TransformerEngine-FL", "linear_fwd linear_dgrad linear_wgrad matmul"},
    OtherName{"layer_norm", "FlagGems", "layernorm_fwd"},
    OtherName{"layer_norm_backward", "Liger-Kernel", "layernorm_bwd"},
    OtherName{"layer_norm_forward", "Liger-Kernel", "layernorm_fwd"},
    OtherName{"liger_rotary_pos_emb", "Liger-Kernel", "fused_rope_qk_fwd"},
    OtherName{"linear", "PyTorch", "linear_fwd"},
    OtherName{"mm", "PyTorch", "matmul"},
    OtherName{"native_dropout", "PyTorch", "dropout_fwd"},
    OtherName{"native_dropout_backward", "PyTorch", "dropout_bwd"},
    OtherName{"native_layer_norm", "PyTorch", "layernorm_fwd"},
    OtherName{"native_layer_norm_backward", "PyTorch", "layernorm_bwd"},
    OtherName{"relu_squared_backward", "Liger-Kernel", "srelu_bwd"},
    OtherName{"relu_squared_forward", "Liger-Kernel", "srelu"},
    OtherName{"rms_norm", "FlagGems", "rmsnorm_fwd"},
    OtherName{"rms_norm_backward", "Liger-Kernel", "rmsnorm_bwd"},
    OtherName{"rms_norm_forward", "Liger-Kernel", "rmsnorm_fwd"},
    OtherName{"rope_backward", "Liger-Kernel", "fused_rope_qk_bwd"},
    OtherName{"rope_forward", "Liger-Kernel", "fused_rope_qk_fwd"},
    OtherName{"rope_fwd", "FlagGems", "fused_rope_fwd"},
    OtherName{"rotary_embedding", "vLLM", "fused_rope_qk_fwd"},
    OtherName{"silu_and_mul_out", "FlagGems", "silu_and_mul"},
    OtherName{"silu_backward", "PyTorch", "silu_bwd"},
    OtherName{"softmax", "FlagGems", "scaled_softmax_fwd"},
    OtherName{"swiglu_backward", "Liger-Kernel", "silu_and_mul_bwd"},
    OtherName{"swiglu_forward", "Liger-Kernel", "silu_and_mul"},
    OtherName{"threshold_backward", "PyTorch", "relu_bwd"},
};

} // namespace

std::span<const OtherName> other_names() {
    return table;
}

std::string other_name_hint(std::string_view name) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const OtherName &one) { return one.name == name; });
    if (row == table.end()) {
        return "";
    }
    std::vector<std::string_view> ops;
    for (size_t begin = 0; begin < row->ops.size();) {
        const size_t end = std::min(row->ops.find(' ', begin), row->ops.size());
        ops.push_back(row->ops.substr(begin, end - begin));
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
