// Rows of the cross entropies, which ops/cross_entropy.cpp computes.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

struct CrossEntropy {
    DLDataType t;      // of the logits
    DLDataType grad_t; // fused: of grad_logits, t where these are the logits; with another one, t is f32
    Rows logits, target;
    Rows loss, lse;              // forward: outputs
    Rows grad_loss, grad_logits; // backward; lse is then an input. Fused: grad_logits may be the logits
    int64_t classes;
    int64_t ignore_index;
    double smoothing;
    float scale; // fused: the gradient of every loss
    bool stream;
};

// INVALID_ARGUMENT with the first row whose target is no class.
opdock::Status check_targets(const CrossEntropy &a, int64_t rows);

// Losses, and their gradients by the logits.
void fuse_cross_entropy(const CrossEntropy &a, int64_t rows, const Knobs &knobs);

} // namespace cpu
