// Host code that makes the arguments of the attention kernels from a call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>

#include "attention.cuh"
#include "implementation.hpp"
#include "launch.hpp"
#include "shared_memory.hpp"
#include "tensors.hpp"

namespace gpu {

// Checks tensors whose rows have to be contiguous; null tensors are absent.
inline opdock::Status check_rows(std::initializer_list<const DLTensor *> tensors, int64_t most = most_dims) {
    for (const DLTensor *tensor : tensors) {
        if (tensor == nullptr) {
            continue;
        }
        const int64_t n = row_size(*tensor);
        if (n > most) {
            return opdock::unsupported("heads have " + std::to_string(n) + " elements; at most " +
                                       std::to_string(most) + " are supported");
        }
        if (n > 1 && tensor->strides[tensor->ndim - 1] != 1) {
            return opdock::unsupported("it needs rows with contiguous elements");
        }
    }
    return {};
}

// Query starts are input `starts`, key starts the next input.
inline opdock::Status check_starts(const opdock::Problem &problem, uint32_t starts) {
    if (problem.has_input(starts) != problem.has_input(starts + 1)) {
        return opdock::invalid_argument("query_starts and key_starts: give both or neither");
    }
    return {};
}

// Checks the query, which is input `first`, the key and the value. 16-bit types need `bytes` of shared memory.
inline opdock::Status check_sizes(const opdock::Problem &problem, uint32_t first, int64_t bytes) {
    int64_t rows[3] = {1, 1, 1};
    for (uint32_t i = 0; i < 3; ++i) {
        const DLTensor &tensor = *problem.input(first + i);
        for (int d = 0; d + 1 < tensor.ndim; ++d) {
            rows[i] = std::min(rows[i], int64_t(1) << 31) * std::min(tensor.shape[d], int64_t(1) << 31);
        }
    }
    if (std::max({rows[0], rows[1], rows[2]}) > int64_t(1) << 29) {
        return opdock::unsupported("it needs at most 2^29 rows of each tensor");
    }
#ifndef __HIP__
    const opdock_device_properties *properties = problem.device_properties();
    if (element_bytes(*problem.input(first)) == 2 && properties != nullptr) {
        if (std::strncmp(properties->architecture, "sm_7", 4) == 0) {
            return opdock::unsupported("16-bit types need compute capability 8.0");
        }
        if (shared_memory(problem) < bytes) {
            return opdock::unsupported("heads of this size need " + std::to_string(bytes) +
                                       " bytes of shared memory, but a block has " +
                                       std::to_string(shared_memory(problem)));
        }
    }
#else
    static_cast<void>(bytes);
#endif
    return {};
}

// True if each row can be read 16 bytes at a time.
inline bool has_vector_rows(const DLTensor &tensor, const void *data) {
    const int64_t n = 16 / element_bytes(tensor);
    bool fits = aligned(data) && row_size(tensor) % n == 0;
    for (int d = 0; d + 1 < tensor.ndim; ++d) {
        fits = fits && (tensor.shape[d] <= 1 || tensor.strides[d] % n == 0);
    }
    return fits;
}

template<class T>
HeadRows<T> head_rows(const DLTensor &tensor, const void *data) {
    return {static_cast<T *>(const_cast<void *>(data)), tensor.strides[0], tensor.strides[1], tensor.strides[2],
            has_vector_rows(tensor, data)};
}
// The rows of a tensor [batch, head, element].
template<class T>
HeadRows<T> decode_rows(const DLTensor &tensor, const void *data) {
    return {static_cast<T *>(const_cast<void *>(data)), tensor.strides[0], 0, tensor.strides[1],
            has_vector_rows(tensor, data)};
}

// The conversion of dot products into scores, as kernels take it.
struct Scoring {
    float factor, soft_cap;
};

// Scoring for heads of d elements. The scale is attribute 0.
inline Scoring scoring_of(const opdock::Problem &problem, int64_t d, uint32_t soft_cap_at) {
    const double scale =
        problem.has_attribute(0) ? problem.get_float(0) : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(d, 1)));
    const double soft_cap = problem.get_float(soft_cap_at);
    const bool caps = soft_cap > 0;
    return {static_cast<float>(caps ? scale : scale * static_cast<double>(log2_e)),
            static_cast<float>(caps ? soft_cap : 0)};
}

// For ops on whole sequences: the query is input `first`, and the starts are inputs `starts` and `starts` + 1.
inline Attention attention_of(const opdock::Call &call, uint32_t first, uint32_t starts) {
    const DLTensor &query = *call.input(first), &key = *call.input(first + 1);
    Attention a = {};
    a.batches = static_cast<int>(query.shape[0]);
    a.queries = static_cast<int>(query.shape[1]);
    a.heads = static_cast<int>(query.shape[2]);
    a.key_heads = static_cast<int>(key.shape[2]);
    a.keys = a.key_heads == 0 ? 0 : static_cast<int>(key.shape[1]);
    a.heads_per_key = a.key_heads == 0 ? 1 : a.heads / a.key_heads;
    a.d = static_cast<int>(row_size(query));
    a.e = static_cast<int>(row_size(*call.input(first + 2)));
    const Scoring scoring = scoring_of(call, a.d, 4);
    a.factor = scoring.factor;
    a.soft_cap = scoring.soft_cap;
    // Windows are limited to the number of all tokens, so that positions and windows can be added.
    const int64_t all = int64_t(a.queries) + a.keys;
    const auto window = [&](int64_t size) { return static_cast<int>(size < 0 ? all : std::min(size, all)); };
    a.left = window(call.get_int(2));
    a.right = call.get_bool(1) ? 0 : window(call.get_int(3));
    if (call.has_input(starts)) {
        a.query_starts = static_cast<const int32_t *>(input_data(call, starts));
        a.key_starts = static_cast<const int32_t *>(input_data(call, starts + 1));
        a.query_starts_step = call.input(starts)->strides[0];
        a.key_starts_step = call.input(starts + 1)->strides[0];
        a.starts = static_cast<int>(call.input(starts)->shape[0]);
    }
    return a;
}

// For lse or a bias; null if absent.
template<class T>
HeadNumbers<T> head_numbers(const DLTensor *tensor, const void *data) {
    if (tensor == nullptr) {
        return {};
    }
    return {static_cast<T *>(const_cast<void *>(data)), tensor->strides[0], tensor->strides[1], tensor->strides[2],
            tensor->ndim == 4 ? tensor->strides[3] : 0};
}

// Calls visit(Number<D>) for the head size D, at least `dims`, that kernels have room for.
template<class T, class Visitor>
opdock::Status visit_dims(int64_t dims, Visitor &&visit) {
#ifndef __HIP__
    if constexpr (sizeof(T) == 2) {
        if (dims <= 64) {
            return visit(Number<64>{});
        }
    }
#endif
    return dims <= 128 ? visit(Number<128>{}) : visit(Number<256>{});
}

// Launches a kernel that uses only dynamic shared memory.
template<class... Parameters, class... Arguments>
opdock::Status launch_with_shared_memory(const opdock::Call &call, const Grid &grid, void (*kernel)(Parameters...),
                                         Arguments &&...arguments) {
    opdock::Status status = allow_all_shared_memory(call, kernel, 0);
    return status.ok() ? launch(call, grid, kernel, std::forward<Arguments>(arguments)...) : std::move(status);
}

} // namespace gpu
