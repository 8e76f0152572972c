// Shapes and pointers of a call. Most ask the host for contiguous tensors.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"

namespace gpu {

inline int64_t element_count(const DLTensor &tensor) {
    int64_t count = 1;
    for (int d = 0; d < tensor.ndim; ++d) {
        count *= tensor.shape[d];
    }
    return count;
}

// Of the last dimension; 1 for a tensor of rank 0.
inline int64_t row_size(const DLTensor &tensor) {
    return tensor.ndim == 0 ? 1 : tensor.shape[tensor.ndim - 1];
}

inline int64_t row_count(const DLTensor &tensor) {
    int64_t count = 1;
    for (int d = 0; d + 1 < tensor.ndim; ++d) {
        count *= tensor.shape[d];
    }
    return count;
}

inline int64_t element_bytes(const DLTensor &tensor) {
    return tensor.dtype.bits / 8;
}

// Pointers of the tensors by parameter; null for one that is absent or empty.
inline void *data_of(const opdock::Call &call, uint32_t parameter, uint32_t item = 0) {
    const opdock_problem &problem = call.c();
    const uint32_t at = problem.tensor_offsets[parameter] + item;
    return at < problem.tensor_offsets[parameter + 1] ? call.call().data[at] : nullptr;
}
inline void *input_data(const opdock::Call &call, uint32_t i, uint32_t item = 0) {
    return data_of(call, i, item);
}
inline void *output_data(const opdock::Call &call, uint32_t i, uint32_t item = 0) {
    return data_of(call, call.c().n_inputs + i, item);
}

inline bool aligned(const void *pointer, size_t bytes = 16) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Whether all pointers allow 16-byte accesses; null ones do.
template<class... Pointers>
bool all_aligned(Pointers... pointers) {
    return (aligned(pointers) && ...);
}

// True if the same element of two tensors that begin there is never aligned to 16 bytes in both.
inline bool are_apart(const void *one, const void *other) {
    return (reinterpret_cast<uintptr_t>(one) ^ reinterpret_cast<uintptr_t>(other)) % 16 != 0;
}

// The dtype tuples served.
inline constexpr const char *any_float = "f32|f16|bf16";                              // T
inline constexpr const char *weighted = "f32,f32|f16,f16|f16,f32|bf16,bf16|bf16,f32"; // T, U
inline constexpr const char *to_fp8 = "f32,e4m3|f32,e5m2|f16,e4m3|f16,e5m2|bf16,e4m3|bf16,e5m2";
inline constexpr const char *to_8_bits =
    "f32,i8|f32,e4m3|f32,e5m2|f16,i8|f16,e4m3|f16,e5m2|bf16,i8|bf16,e4m3|bf16,e5m2";
// T, U, F.
inline constexpr const char *weighted_to_fp8 =
    "f32,f32,e4m3|f32,f32,e5m2|f16,f16,e4m3|f16,f16,e5m2|f16,f32,e4m3|f16,f32,e5m2|"
    "bf16,bf16,e4m3|bf16,bf16,e5m2|bf16,f32,e4m3|bf16,f32,e5m2";
// T, P; T, U, P.
inline constexpr const char *with_positions = "f32,i32|f32,i64|f16,i32|f16,i64|bf16,i32|bf16,i64";
inline constexpr const char *weighted_with_positions =
    "f32,f32,i32|f32,f32,i64|f16,f16,i32|f16,f16,i64|f16,f32,i32|f16,f32,i64|bf16,bf16,i32|bf16,bf16,i64|"
    "bf16,f32,i32|bf16,f32,i64";
inline constexpr const char *from_fp8 = "e4m3,f32|e5m2,f32|e4m3,f16|e5m2,f16|e4m3,bf16|e5m2,bf16";
// F, G, T.
inline constexpr const char *fp8_factors =
    "e4m3,e4m3,f32|e4m3,e4m3,f16|e4m3,e4m3,bf16|e4m3,e5m2,f32|e4m3,e5m2,f16|e4m3,e5m2,bf16|"
    "e5m2,e4m3,f32|e5m2,e4m3,f16|e5m2,e4m3,bf16|e5m2,e5m2,f32|e5m2,e5m2,f16|e5m2,e5m2,bf16";

} // namespace gpu
