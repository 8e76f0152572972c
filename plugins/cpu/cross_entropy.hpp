// Row kernels of the cross entropies, implemented in ops/cross_entropy.cpp.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

struct CrossEntropy {
    DLDataType t;      // of the logits
    DLDataType grad_t; // fused: of grad_logits, t if they overwrite the logits; if it differs from t, t is f32
    Rows logits, target;
    Rows loss, lse;              // forward: outputs
    Rows grad_loss, grad_logits; // backward; lse is then an input. Fused: grad_logits may be the logits
    int64_t classes;
    int64_t ignore_index;
    double smoothing;
    float scale; // fused: the gradient of every loss
    bool stream;
};

// Returns INVALID_ARGUMENT with the first row whose target is not a class.
opdock::Status check_targets(const CrossEntropy &a, int64_t rows);

// Computes losses and their gradients with respect to the logits.
void fuse_cross_entropy(const CrossEntropy &a, int64_t rows, const Knobs &knobs);

} // namespace cpu
