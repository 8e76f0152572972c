// The gates by name and setting; simd/gate-inl.h has what they compute.
#pragma once

#include "activation.hpp"

namespace cpu {

struct Gate {
    Activation activation;
    bool clamped = false; // of silu; the other two are read only then
    float limit = 0;
    float alpha = 0;
};

} // namespace cpu
