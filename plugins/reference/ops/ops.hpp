// The kernels. What each computes is said beside its signature, in opdock/ops/.
#pragma once

#include "opdock/plugin.hpp"

namespace reference {

using opdock::Call;
using opdock::Problem;
using opdock::Status;

Status rmsnorm_fwd(const Call &call);
Status rmsnorm_bwd(const Call &call);
Status rmsnorm_bwd_add(const Call &call);
Status fused_add_rmsnorm_fwd(const Call &call);
Status layernorm_fwd(const Call &call);
Status layernorm_bwd(const Call &call);

Status gelu(const Call &call);
Status qgelu(const Call &call);
Status relu(const Call &call);
Status silu(const Call &call);
Status srelu(const Call &call);
Status gelu_bwd(const Call &call);
Status qgelu_bwd(const Call &call);
Status relu_bwd(const Call &call);
Status silu_bwd(const Call &call);
Status srelu_bwd(const Call &call);
Status gelu_bwd_bias(const Call &call);
Status qgelu_bwd_bias(const Call &call);
Status relu_bwd_bias(const Call &call);
Status silu_bwd_bias(const Call &call);
Status srelu_bwd_bias(const Call &call);

Status geglu(const Call &call);
Status qgeglu(const Call &call);
Status reglu(const Call &call);
Status sreglu(const Call &call);
Status swiglu(const Call &call);
Status clamped_swiglu(const Call &call);
Status geglu_bwd(const Call &call);
Status qgeglu_bwd(const Call &call);
Status reglu_bwd(const Call &call);
Status sreglu_bwd(const Call &call);
Status swiglu_bwd(const Call &call);
Status clamped_swiglu_bwd(const Call &call);
Status gelu_and_mul(const Call &call);
Status silu_and_mul(const Call &call);
Status gelu_and_mul_bwd(const Call &call);
Status silu_and_mul_bwd(const Call &call);

Status scaled_softmax_fwd(const Call &call);
Status scaled_softmax_bwd(const Call &call);
Status scaled_masked_softmax_fwd(const Call &call);
Status scaled_masked_softmax_bwd(const Call &call);
Status scaled_upper_triang_masked_softmax_fwd(const Call &call);
Status scaled_upper_triang_masked_softmax_bwd(const Call &call);
Status scaled_aligned_causal_masked_softmax_fwd(const Call &call);
Status scaled_aligned_causal_masked_softmax_bwd(const Call &call);

Status supports_rope(const Problem &problem);
Status fused_rope_fwd(const Call &call);
Status fused_rope_bwd(const Call &call);
Status fused_rope_qk_fwd(const Call &call);
Status fused_rope_qk_bwd(const Call &call);

Status matmul(const Call &call);
Status linear_fwd(const Call &call);
Status linear_dgrad(const Call &call);
Status linear_wgrad(const Call &call);

Status cross_entropy_fwd(const Call &call);
Status cross_entropy_bwd(const Call &call);
Status fused_cross_entropy(const Call &call);

Status add(const Call &call);
Status mul(const Call &call);

Status supports_dropout(const Problem &problem);
Status dropout_fwd(const Call &call);
Status dropout_bwd(const Call &call);

Status quantize(const Call &call);
Status dequantize(const Call &call);

Status multi_tensor_adam(const Call &call);
Status multi_tensor_sgd(const Call &call);
Status multi_tensor_l2norm(const Call &call);
Status multi_tensor_scale(const Call &call);

} // namespace reference
