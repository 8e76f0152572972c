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
    OPDOCK_OP_DGELU,
    OPDOCK_OP_DQGELU,
    OPDOCK_OP_DRELU,
    OPDOCK_OP_DSRELU,
    OPDOCK_OP_DSILU,
    OPDOCK_OP_DBIAS_DGELU,
    OPDOCK_OP_DBIAS_DQGELU,
    OPDOCK_OP_DBIAS_DRELU,
    OPDOCK_OP_DBIAS_DSRELU,
    OPDOCK_OP_DBIAS_DSILU,
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
    OPDOCK_OP_DGEGLU,
    OPDOCK_OP_DQGEGLU,
    OPDOCK_OP_DREGLU,
    OPDOCK_OP_DSREGLU,
    OPDOCK_OP_DSWIGLU,
    OPDOCK_OP_CLAMPED_SWIGLU,
    OPDOCK_OP_CLAMPED_DSWIGLU,
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
    OPDOCK_OP_FUSED_ROPE_FORWARD,
    OPDOCK_OP_FUSED_ROPE_BACKWARD,
    OPDOCK_OP_SCALED_SOFTMAX_FORWARD,
    OPDOCK_OP_SCALED_SOFTMAX_BACKWARD,
    OPDOCK_OP_SCALED_MASKED_SOFTMAX_FORWARD,
    OPDOCK_OP_SCALED_MASKED_SOFTMAX_BACKWARD,
    OPDOCK_OP_SCALED_UPPER_TRIANG_MASKED_SOFTMAX_FORWARD,
    OPDOCK_OP_SCALED_UPPER_TRIANG_MASKED_SOFTMAX_BACKWARD,
    OPDOCK_OP_SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_FORWARD,
    OPDOCK_OP_SCALED_ALIGNED_CAUSAL_MASKED_SOFTMAX_BACKWARD,
}));
// NOLINTEND(bugprone-suspicious-missing-comma)

} // namespace

std::string_view standard_signature(std::string_view name) {
    const auto *const found = std::ranges::lower_bound(texts, name, {}, name_of);
    return found != texts.end() && name_of(*found) == name ? *found : std::string_view();
}

} // namespace opdock::core
