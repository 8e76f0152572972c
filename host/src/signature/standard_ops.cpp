#include "signature/standard_ops.hpp"

#include <algorithm>
#include <array>

#include "opdock/standard_ops.h"

namespace opdock::core {
namespace {

constexpr std::string_view name_of(std::string_view text) {
    return text.substr(0, text.find('('));
}

template<std::size_t count>
constexpr std::array<std::string_view, count> by_name(std::array<std::string_view, count> signatures) {
    std::ranges::sort(signatures, {}, name_of);
    return signatures;
}

// NOLINTBEGIN(bugprone-suspicious-missing-comma): each macro is several literals
constexpr std::array texts = by_name(std::to_array<std::string_view>({
    OPDOCK_OP_GELU,
    OPDOCK_OP_QGELU,
    OPDOCK_OP_RELU,
    OPDOCK_OP_SRELU,
    OPDOCK_OP_SILU,
    OPDOCK_OP_GELU_BWD,
    OPDOCK_OP_QGELU_BWD,
    OPDOCK_OP_RELU_BWD,
    OPDOCK_OP_SRELU_BWD,
    OPDOCK_OP_SILU_BWD,
    OPDOCK_OP_GELU_BWD_BIAS,
    OPDOCK_OP_QGELU_BWD_BIAS,
    OPDOCK_OP_RELU_BWD_BIAS,
    OPDOCK_OP_SRELU_BWD_BIAS,
    OPDOCK_OP_SILU_BWD_BIAS,
    OPDOCK_OP_ADD,
    OPDOCK_OP_MUL,
    OPDOCK_OP_DROPOUT_FWD,
    OPDOCK_OP_DROPOUT_BWD,
    OPDOCK_OP_QUANTIZE,
    OPDOCK_OP_DEQUANTIZE,
    OPDOCK_OP_GEGLU,
    OPDOCK_OP_QGEGLU,
    OPDOCK_OP_REGLU,
    OPDOCK_OP_SREGLU,
    OPDOCK_OP_SWIGLU,
    OPDOCK_OP_GEGLU_BWD,
    OPDOCK_OP_QGEGLU_BWD,
    OPDOCK_OP_REGLU_BWD,
    OPDOCK_OP_SREGLU_BWD,
    OPDOCK_OP_SWIGLU_BWD,
    OPDOCK_OP_CLAMPED_SWIGLU,
    OPDOCK_OP_CLAMPED_SWIGLU_BWD,
    OPDOCK_OP_SILU_AND_MUL,
    OPDOCK_OP_SILU_AND_MUL_BWD,
    OPDOCK_OP_GELU_AND_MUL,
    OPDOCK_OP_GELU_AND_MUL_BWD,
    OPDOCK_OP_MATMUL,
    OPDOCK_OP_LINEAR_FWD,
    OPDOCK_OP_LINEAR_DGRAD,
    OPDOCK_OP_LINEAR_WGRAD,
    OPDOCK_OP_CROSS_ENTROPY_FWD,
    OPDOCK_OP_CROSS_ENTROPY_BWD,
    OPDOCK_OP_FUSED_CROSS_ENTROPY,
    OPDOCK_OP_RMSNORM_FWD,
    OPDOCK_OP_RMSNORM_BWD,
    OPDOCK_OP_RMSNORM_BWD_ADD,
    OPDOCK_OP_FUSED_ADD_RMSNORM_FWD,
    OPDOCK_OP_LAYERNORM_FWD,
    OPDOCK_OP_LAYERNORM_BWD,
    OPDOCK_OP_MULTI_TENSOR_ADAM,
    OPDOCK_OP_MULTI_TENSOR_SGD,
    OPDOCK_OP_MULTI_TENSOR_L2NORM,
    OPDOCK_OP_MULTI_TENSOR_SCALE,
    OPDOCK_OP_FUSED_ROPE_FWD,
    OPDOCK_OP_FUSED_ROPE_BWD,
    OPDOCK_OP_FUSED_ROPE_QK_FWD,
    OPDOCK_OP_FUSED_ROPE_QK_BWD,
    OPDOCK_OP_SCALED_SOFTMAX_FWD,
    OPDOCK_OP_SCALED_SOFTMAX_BWD,
    OPDOCK_OP_SCALED_MASKED_SOFTMAX_FWD,
    OPDOCK_OP_SCALED_MASKED_SOFTMAX_BWD,
    OPDOCK_OP_SCALED_UPPER_TRIANG_MASKED_SOFTMAX_FWD,
    OPDOCK_OP_SCALED_UPPER_TRIANG_MASKED_SOFTMAX_BWD,
    OPDOCK_OP_SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_FWD,
    OPDOCK_OP_SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_BWD,
}));
// NOLINTEND(bugprone-suspicious-missing-comma)

struct Alias {
    std::string_view name; // Transformer Engine's
    std::string_view op;
};

// Sorted.
constexpr std::array aliases = {
    Alias{"clamped_dswiglu", "clamped_swiglu_bwd"},
    Alias{"dbias_dgelu", "gelu_bwd_bias"},
    Alias{"dbias_dqgelu", "qgelu_bwd_bias"},
    Alias{"dbias_drelu", "relu_bwd_bias"},
    Alias{"dbias_dsilu", "silu_bwd_bias"},
    Alias{"dbias_dsrelu", "srelu_bwd_bias"},
    Alias{"dgeglu", "geglu_bwd"},
    Alias{"dgelu", "gelu_bwd"},
    Alias{"dqgeglu", "qgeglu_bwd"},
    Alias{"dqgelu", "qgelu_bwd"},
    Alias{"dreglu", "reglu_bwd"},
    Alias{"drelu", "relu_bwd"},
    Alias{"dsilu", "silu_bwd"},
    Alias{"dsreglu", "sreglu_bwd"},
    Alias{"dsrelu", "srelu_bwd"},
    Alias{"dswiglu", "swiglu_bwd"},
    Alias{"fused_rope_backward", "fused_rope_bwd"},
    Alias{"fused_rope_forward", "fused_rope_fwd"},
    Alias{"scaled_aligned_causal_masked_softmax_backward", "scaled_aligned_causal_masked_softmax_bwd"},
    Alias{"scaled_aligned_causal_masked_softmax_forward", "scaled_aligned_causal_masked_softmax_fwd"},
    Alias{"scaled_masked_softmax_backward", "scaled_masked_softmax_bwd"},
    Alias{"scaled_masked_softmax_forward", "scaled_masked_softmax_fwd"},
    Alias{"scaled_softmax_backward", "scaled_softmax_bwd"},
    Alias{"scaled_softmax_forward", "scaled_softmax_fwd"},
    Alias{"scaled_upper_triang_masked_softmax_backward", "scaled_upper_triang_masked_softmax_bwd"},
    Alias{"scaled_upper_triang_masked_softmax_forward", "scaled_upper_triang_masked_softmax_fwd"},
};
static_assert(std::ranges::is_sorted(aliases, {}, &Alias::name));

} // namespace

std::string_view standard_signature(std::string_view name) {
    const auto *const found = std::ranges::lower_bound(texts, name, {}, name_of);
    return found != texts.end() && name_of(*found) == name ? *found : std::string_view();
}

std::string_view standard_name(std::string_view name) {
    const auto *const found = std::ranges::lower_bound(aliases, name, {}, &Alias::name);
    return found != aliases.end() && found->name == name ? found->op : name;
}

} // namespace opdock::core
