// What the files of this folder bring: the functions of one implementation for each op.
#pragma once

#include "opdock/plugin.hpp"

namespace cpu {

struct Implementation {
    opdock_kernel kernel;
    decltype(opdock_impl::supports) supports;
    decltype(opdock_impl::workspace_size) workspace_size = nullptr;
};

// rmsnorm.cpp, layernorm.cpp
extern const Implementation rmsnorm_fwd, rmsnorm_bwd, fused_add_rmsnorm_fwd, layernorm_fwd, layernorm_bwd;
// activation.cpp
extern const Implementation gelu, silu, relu, dgelu, dsilu, drelu;
// gated.cpp
extern const Implementation swiglu, dswiglu, silu_and_mul;
// softmax.cpp
extern const Implementation scaled_softmax_forward, scaled_softmax_backward;
// rope.cpp
extern const Implementation fused_rope_forward, fused_rope_backward;
// elementwise.cpp
extern const Implementation add, mul;
// linear.cpp
extern const Implementation linear_fwd;
// cross_entropy.cpp
extern const Implementation cross_entropy_fwd, cross_entropy_bwd;

} // namespace cpu
