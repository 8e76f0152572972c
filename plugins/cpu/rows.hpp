// Locations of a tensor's rows in memory.
//
// Kernels work on rows with contiguous elements. The strides between rows are arbitrary: a single step if the leading
// dims collapse into one, else the row's index is decomposed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "opdock/plugin.hpp"

namespace cpu {

class Rows {
  public:
    // An absent tensor.
    Rows() = default;
    // The last `inner` dims form a row: 1, or 0 if each element is a row.
    static Rows of_input(const opdock::Call &call, uint32_t i, int32_t inner = 1);
    static Rows of_output(const opdock::Call &call, uint32_t i, int32_t inner = 1);
    // Rows at a constant step, from `first` on.
    static Rows apart(void *first, int64_t step_bytes) {
        Rows rows;
        rows.data_ = static_cast<std::byte *>(first);
        rows.step_ = step_bytes;
        return rows;
    }

    // False when the tensor is absent or has no elements.
    explicit operator bool() const { return data_ != nullptr; }

    template<class T>
    T *row(int64_t i) const {
        if (data_ == nullptr)
            return nullptr;
        return reinterpret_cast<T *>(data_ + (scattered_ == nullptr ? i * step_ : offset(i)));
    }

    // Elements from each row to the next; empty if the rows have no constant step.
    template<class T>
    std::optional<int64_t> step() const {
        if (scattered_ != nullptr)
            return {};
        return step_ / static_cast<int64_t>(sizeof(T));
    }

  private:
    Rows(const DLTensor *tensor, void *data, int32_t inner);
    int64_t offset(int64_t i) const;

    std::byte *data_ = nullptr;
    int64_t step_ = 0;                    // bytes from row to row
    const DLTensor *scattered_ = nullptr; // set if the rows have no constant step
    int32_t leading_ = 0;
};

// Requirements on one tensor: its name, and whether the elements of the last dim must be contiguous.
struct Operand {
    const char *name;
    bool dense_rows = true;
};

// Returns UNSUPPORTED with the reason if one of the tensors, inputs first, does not meet its operand's requirements.
opdock::Status check_rows(const opdock::Problem &problem, const Operand *operands, size_t count);

template<size_t count>
opdock::Status check_rows(const opdock::Problem &problem, const Operand (&operands)[count]) {
    return check_rows(problem, operands, count);
}

// The product of the first `count` dims.
int64_t leading_size(const DLTensor &tensor, int32_t count);
// The last dim; 1 for rank 0.
int64_t row_size(const DLTensor &tensor);
// The number of rows.
int64_t row_count(const DLTensor &tensor);
int64_t element_count(const DLTensor &tensor);
int64_t element_bytes(const DLTensor &tensor);
// True for a row-major tensor without gaps.
bool is_dense(const DLTensor &tensor);

} // namespace cpu
