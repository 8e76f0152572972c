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

#define OPDOCK_SIGNATURE(name, NAME) OPDOCK_OP_##NAME,
constexpr std::array texts = by_name(std::to_array<std::string_view>({OPDOCK_STANDARD_OPS(OPDOCK_SIGNATURE)}));
#undef OPDOCK_SIGNATURE

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
