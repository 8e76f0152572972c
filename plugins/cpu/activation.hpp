// The activations by name; simd/activation-inl.h has what they compute.
#pragma once

namespace cpu {

enum class Activation { gelu, qgelu, relu, silu, srelu };

} // namespace cpu
