// The calls of attention_fwd and attention_bwd that cuDNN can serve, and their sizes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "cudnn_api.hpp"
#include "opdock/plugin.hpp"
#include "tensors.hpp"

namespace gpu {

inline constexpr int64_t most_cudnn_dims = 256;

// The arguments that both ops have: the query is input `query`; key and value follow it.
struct CudnnAttention {
    int64_t b, h, g, s, k, d, e;
    int64_t left, right; // around the diagonal that ends in the last key; negative: unbounded
    float scale;
    cudnn::DataType type;

    CudnnAttention(const opdock::Problem &problem, uint32_t query) {
        const DLTensor &q = *problem.input(query), &keys = *problem.input(query + 1);
        b = q.shape[0], s = q.shape[1], h = q.shape[2], d = q.shape[3];
        k = keys.shape[1], g = keys.shape[2];
        e = row_size(*problem.input(query + 2));
        // A bound that no query reaches counts as none.
        left = problem.get_int(2) < k ? problem.get_int(2) : -1;
        right = problem.get_bool(1) ? 0 : problem.get_int(3) < std::max(s, k) ? problem.get_int(3) : -1;
        scale =
            static_cast<float>(problem.has_attribute(0) ? problem.get_float(0)
                                                        : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(d, 1))));
        type = opdock_dtype_pack(q.dtype) == OPDOCK_F16 ? cudnn::DataType::f16 : cudnn::DataType::bf16;
    }

    bool is_masked() const { return left >= 0 || right >= 0; }
    std::array<int64_t, 4> scores() const { return {b, h, s, k}; }
    std::array<int64_t, 4> rows() const { return {b, h, s, 1}; }
};

inline opdock::Status check_cudnn_heads(const DLTensor &tensor) {
    const int64_t n = row_size(tensor);
    if (n % 8 != 0 || n > most_cudnn_dims) {
        return opdock::unsupported("cuDNN needs heads of a multiple of 8 elements, at most " +
                                   std::to_string(most_cudnn_dims) + "; these have " + std::to_string(n));
    }
    int64_t last = 0;
    for (int d = 0; d < tensor.ndim; ++d) {
        const int64_t step = tensor.strides[d];
        if (tensor.shape[d] > 1 && (d == tensor.ndim - 1 ? step != 1 : step <= 0 || step % 8 != 0)) {
            return opdock::unsupported("cuDNN needs rows with contiguous elements, a multiple of 16 bytes apart");
        }
        last += (tensor.shape[d] - 1) * step;
    }
    return last < int64_t(1) << 31 ? opdock::Status()
                                   : opdock::unsupported("cuDNN is only used for tensors of up to 2^31 elements");
}

// `bias` is the index of its input; query_starts and key_starts follow it.
inline opdock::Status check_cudnn_attention(const opdock::Problem &problem, uint32_t query, uint32_t bias) {
    if (problem.has_input(bias + 1) || problem.has_input(bias + 2)) {
        return opdock::unsupported("cuDNN is not used for sequences of different lengths");
    }
    if (problem.has_input(bias) || problem.get_float(4) > 0) {
        return opdock::unsupported("cuDNN is not used with a bias or a soft cap");
    }
    const CudnnAttention a(problem, query);
    if (std::min({a.b, a.h, a.g, a.s, a.k, a.d, a.e}) == 0) {
        return opdock::unsupported("cuDNN does not support empty tensors");
    }
    if (a.is_masked() && a.s > a.k) {
        return opdock::unsupported("cuDNN does not support queries that see no key");
    }
    return {};
}

inline opdock::Status check_cudnn_heads(std::initializer_list<const DLTensor *> tensors) {
    for (const DLTensor *tensor : tensors) {
        if (opdock::Status status = check_cudnn_heads(*tensor); !status.ok()) {
            return status;
        }
    }
    return {};
}

inline opdock::Status check_cudnn_lse(const DLTensor *lse) {
    return lse == nullptr || is_dense(*lse) ? opdock::Status() : opdock::unsupported("cuDNN needs an lse without gaps");
}

inline opdock::Status cudnn_supports_forward(const opdock::Problem &problem) {
    if (opdock::Status status = check_cudnn_attention(problem, 0, 3); !status.ok()) {
        return status;
    }
    if (opdock::Status status = check_cudnn_lse(problem.output(1)); !status.ok()) {
        return status;
    }
    return check_cudnn_heads({problem.input(0), problem.input(1), problem.input(2), problem.output(0)});
}

inline opdock::Status cudnn_supports_backward(const opdock::Problem &problem) {
    if (opdock::Status status = check_cudnn_attention(problem, 1, 6); !status.ok()) {
        return status;
    }
    if (problem.has_output(3)) {
        return opdock::unsupported("cuDNN is not used for the gradient of a bias");
    }
    if (problem.input(1)->shape[1] == 1 && problem.input(2)->shape[1] == 1) {
        return opdock::unsupported("cuDNN does not support gradients of one query and one key");
    }
    if (opdock::Status status = check_cudnn_lse(problem.input(5)); !status.ok()) {
        return status;
    }
    return check_cudnn_heads({problem.input(0), problem.input(1), problem.input(2), problem.input(3), problem.input(4),
                              problem.output(0), problem.output(1), problem.output(2)});
}

} // namespace gpu
