// The activations by name; simd/activation-inl.h implements them.
#pragma once

namespace cpu {

enum class Activation { gelu, qgelu, relu, silu, srelu };

} // namespace cpu
