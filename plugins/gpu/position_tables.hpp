// Host code for the last inputs of a call: positions of tokens, and tables of cosines and sines.
#pragma once

#include <initializer_list>

#include "rope.cuh"
#include "tensors.hpp"

namespace gpu {

// Null tensors are absent.
inline bool have_dense_rows(std::initializer_list<const DLTensor *> tensors) {
    for (const DLTensor *tensor : tensors) {
        if (tensor != nullptr && row_size(*tensor) > 1 && tensor->strides[tensor->ndim - 1] != 1) {
            return false;
        }
    }
    return true;
}

// Requires dense rows of all tensors but the positions, and fewer than 2^31 rows of the tensors that are rotated.
inline opdock::Status has_dense_rows_at_positions(const opdock::Problem &problem) {
    const uint32_t positions = problem.c().n_inputs - 3;
    if (problem.input(positions)->shape[0] > 0 && problem.input(positions + 1)->shape[0] == 0) {
        return opdock::invalid_argument("positions: the tables have no rows");
    }
    for (uint32_t i = 0; i < problem.c().n_tensors; ++i) {
        const DLTensor *tensor = problem.c().tensors[i];
        if (i != positions && !have_dense_rows({tensor})) {
            return opdock::unsupported(dense_rows_wanted);
        }
        if (tensor != nullptr && tensor->ndim == 3 && row_count(*tensor) > INT32_MAX) {
            return opdock::unsupported("it needs fewer than 2^31 heads in all tokens");
        }
    }
    return {};
}

inline Tables tables_of(const opdock::Call &call) {
    const uint32_t first = call.c().n_inputs - 3;
    const DLTensor &positions = *call.input(first), &cos = *call.input(first + 1), &sin = *call.input(first + 2);
    const auto *cosines = static_cast<const float *>(input_data(call, first + 1));
    const auto *sines = static_cast<const float *>(input_data(call, first + 2));
    return {input_data(call, first),
            cosines,
            sines,
            cos.shape[0],
            positions.strides[0],
            cos.strides[0],
            sin.strides[0],
            positions.dtype.bits == 64,
            all_aligned(cosines, sines) && cos.strides[0] % wide<float> == 0 && sin.strides[0] % wide<float> == 0};
}

} // namespace gpu
