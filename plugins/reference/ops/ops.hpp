// Each file of this folder registers its ops, with their kernels. The formulas are beside the ops' signatures, in
// opdock/ops/.
#pragma once

#include <deque>
#include <string>

#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"

namespace reference {

using opdock::Call;
using opdock::Problem;
using opdock::Status;

// Dtype tuples: T; T and U for weights or parameters with their own dtype; then those of quantize and dequantize. f64
// is for gradient checks by finite differences; what signatures fix as f32, such as statistics and losses, stays f32.
inline constexpr const char *any_float = "f32|f16|bf16|f64";
inline constexpr const char *weighted = "f32,f32|f16,f16|f16,f32|bf16,bf16|bf16,f32|f64,f64";
inline constexpr const char *optimized = "f32,f32|f16,f16|f16,f32|bf16,bf16|bf16,f32";
inline constexpr const char *to_fp8 = "f32,e4m3|f32,e5m2|f16,e4m3|f16,e5m2|bf16,e4m3|bf16,e5m2";
inline constexpr const char *to_8_bits =
    "f32,i8|f32,e4m3|f32,e5m2|f16,i8|f16,e4m3|f16,e5m2|bf16,i8|bf16,e4m3|bf16,e5m2";
// T, U, F.
inline constexpr const char *weighted_to_fp8 =
    "f32,f32,e4m3|f32,f32,e5m2|f16,f16,e4m3|f16,f16,e5m2|f16,f32,e4m3|f16,f32,e5m2|"
    "bf16,bf16,e4m3|bf16,bf16,e5m2|bf16,f32,e4m3|bf16,f32,e5m2";
inline constexpr const char *from_fp8 = "e4m3,f32|e5m2,f32|e4m3,f16|e5m2,f16|e4m3,bf16|e5m2,bf16";
// F, G, T.
inline constexpr const char *fp8_factors =
    "e4m3,e4m3,f32|e4m3,e4m3,f16|e4m3,e4m3,bf16|e4m3,e5m2,f32|e4m3,e5m2,f16|e4m3,e5m2,bf16|"
    "e5m2,e4m3,f32|e5m2,e4m3,f16|e5m2,e4m3,bf16|e5m2,e5m2,f32|e5m2,e5m2,f16|e5m2,e5m2,bf16";

class Plugin {
  public:
    explicit Plugin(opdock::Registry &registry) : registry_(registry) {}

    void add(const opdock::OpDeclaration &op, const char *dtypes, opdock_kernel kernel,
             decltype(opdock_impl::supports) supports = nullptr);
    // Adds an implementation with knobs, based on implementation().
    void add(const opdock::OpDeclaration &op, const opdock::Impl &impl);
    static opdock::Impl implementation(const char *dtypes, opdock_kernel kernel);
    // The op with f64 added to the dtypes of T and U.
    opdock::OpDeclaration with_f64(const opdock::OpDeclaration &op);

  private:
    opdock::Registry &registry_;
    std::deque<std::string> signatures_; // the registry keeps references to them
};

void add_activation(Plugin &plugin);
void add_attention(Plugin &plugin);
void add_divergence(Plugin &plugin);
void add_dropout(Plugin &plugin);
void add_elementwise(Plugin &plugin);
void add_gated(Plugin &plugin);
void add_indexing(Plugin &plugin);
void add_linear(Plugin &plugin);
void add_loss(Plugin &plugin);
void add_moe(Plugin &plugin);
void add_normalization(Plugin &plugin);
void add_optimizer(Plugin &plugin);
void add_quantize(Plugin &plugin);
void add_rope(Plugin &plugin);
void add_sampling(Plugin &plugin);
void add_softmax(Plugin &plugin);

} // namespace reference
