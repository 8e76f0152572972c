// The gates by name and settings; simd/gate-inl.h implements them.
#pragma once

#include "activation.hpp"

namespace cpu {

struct Gate {
    Activation activation;
    bool clamped = false; // of silu; the other two fields are read only if it is true
    float limit = 0;
    float alpha = 0;
};

} // namespace cpu
