// Shapes, rows and pointers of a call. Most ops require contiguous tensors from the host.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime.hpp"

namespace gpu {

inline int64_t element_count(const DLTensor &tensor) {
    int64_t count = 1;
    for (int d = 0; d < tensor.ndim; ++d) {
        count *= tensor.shape[d];
    }
    return count;
}

// Size of the last dimension; 1 for a tensor of rank 0.
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

// Locations of a tensor's rows: `inner` rows are `step` elements apart, and such runs begin `outer` elements apart.
struct RowSteps {
    int64_t outer, step;
    int inner; // rows per run; 0: all rows

    __device__ __forceinline__ int64_t row(int64_t r) const {
        if (inner == 0) {
            return r * step;
        }
        const int before = static_cast<int>(r) / inner;
        return before * outer + (static_cast<int>(r) - before * inner) * step;
    }
    // True if all rows are aligned for vectors of `n` elements whenever the first row is.
    bool fit(int64_t n) const { return outer % n == 0 && step % n == 0; }
};

// Returns nullopt if the elements of a row are not contiguous, or if the rows need more than two strides.
inline std::optional<RowSteps> row_steps(const DLTensor &tensor) {
    const int last = tensor.ndim - 1;
    if (row_size(tensor) > 1 && tensor.strides[last] != 1) {
        return {};
    }
    RowSteps found = {0, 0, 0};
    int64_t count = 1; // rows found so far
    for (int d = last - 1; d >= 0; --d) {
        const int64_t size = tensor.shape[d], stride = tensor.strides[d];
        if (size == 0) {
            return RowSteps{0, 0, 0};
        }
        if (size == 1) {
            continue;
        }
        if (count == 1) {
            found.step = stride;
        } else if (found.inner == 0 && stride != count * found.step) {
            found.outer = stride;
            found.inner = static_cast<int>(count);
        } else if (found.inner != 0 && stride != count / found.inner * found.outer) {
            return {};
        }
        count *= size;
    }
    // With two strides, a kernel counts rows in 32 bits, including some behind the last one.
    return found.inner == 0 || count <= INT32_MAX - 1024 ? std::optional(found) : std::nullopt;
}

// The rows of a kernel's tensors, by tensor number: of dense tensors, or with any strides. Strides cost a short call a
// tenth of its time, so dense tensors have a kernel of their own.
struct DenseRows {
    int64_t n;

    __device__ __forceinline__ int64_t at(int /*tensor*/, int64_t r) const { return r * n; }
    bool fit(int64_t /*vector*/) const { return true; } // used only if a row is whole vectors
};
template<int count>
struct SteppedRows {
    RowSteps of[count];

    __device__ __forceinline__ int64_t at(int tensor, int64_t r) const { return of[tensor].row(r); }
    bool fit(int64_t vector) const {
        for (const RowSteps &steps : of) {
            if (!steps.fit(vector)) {
                return false;
            }
        }
        return true;
    }
};

// True if the tensor is row-major without gaps.
inline bool is_dense(const DLTensor &tensor) {
    int64_t follows = 1;
    for (int d = tensor.ndim - 1; d >= 0; --d) {
        if (tensor.shape[d] > 1 && tensor.strides[d] != follows) {
            return false;
        }
        follows *= tensor.shape[d];
    }
    return true;
}

// Calls visit(rows) for the rows of the given tensors, numbered in that order.
template<class... Tensors, class Visitor>
opdock::Status visit_rows(Visitor &&visit, const Tensors &...tensors) {
    if ((is_dense(tensors) && ...)) {
        const DLTensor *all[] = {&tensors...};
        return visit(DenseRows{row_size(*all[0])});
    }
    return visit(SteppedRows<static_cast<int>(sizeof...(tensors))>{{*row_steps(tensors)...}});
}

inline constexpr const char *dense_rows_wanted = "it needs rows with contiguous elements";

// For implementations that take rows with any strides: `rows` has a bit for each parameter, inputs first, that is
// accessed by rows. All other parameters must be dense.
template<uint32_t rows>
opdock::Status supports_rows(const opdock::Problem &problem) {
    for (uint32_t i = 0; i < problem.c().n_inputs + problem.c().n_outputs; ++i) {
        const uint32_t at = problem.c().tensor_offsets[i];
        if (at == problem.c().tensor_offsets[i + 1]) {
            continue; // absent
        }
        const DLTensor *tensor = problem.c().tensors[at];
        const bool by_rows = (rows >> i & 1) != 0;
        if (tensor != nullptr && !(by_rows ? row_steps(*tensor).has_value() : is_dense(*tensor))) {
            return opdock::unsupported(by_rows ? std::string(dense_rows_wanted) + ", at most two steps apart"
                                               : "it needs contiguous weights and per-row values");
        }
    }
    return {};
}

// The data pointer of a parameter's tensor; null if it is absent or empty.
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

// True if all pointers allow 16-byte accesses; null pointers do.
template<class... Pointers>
bool all_aligned(Pointers... pointers) {
    return (aligned(pointers) && ...);
}

// True if the data at the two pointers can never both be 16-byte aligned at the same index.
inline bool are_apart(const void *one, const void *other) {
    return (reinterpret_cast<uintptr_t>(one) ^ reinterpret_cast<uintptr_t>(other)) % 16 != 0;
}

// Supported tuples of dtypes.
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
