// Where the rows of a tensor are in memory.
//
// Kernels work on rows whose elements follow each other. From row to row there may be any strides: one step when the
// leading dims collapse into one, else the row's index is taken apart.
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
    // The last `inner` dims make a row: 1, or 0 where each element is a row of its own.
    static Rows of_input(const opdock::Call &call, uint32_t i, int32_t inner = 1);
    static Rows of_output(const opdock::Call &call, uint32_t i, int32_t inner = 1);
    // Rows one step apart, from the first one on.
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

    // Elements from each row to the next; nothing when no single step leads there.
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
    const DLTensor *scattered_ = nullptr; // set when no single step leads from row to row
    int32_t leading_ = 0;
};

// How an implementation wants one tensor: its name, and whether the elements of the last dim must follow each other.
struct Operand {
    const char *name;
    bool dense_rows = true;
};

// UNSUPPORTED with the reason when one of the tensors, inputs first, is not as its operand says.
opdock::Status check_rows(const opdock::Problem &problem, const Operand *operands, size_t count);

template<size_t count>
opdock::Status check_rows(const opdock::Problem &problem, const Operand (&operands)[count]) {
    return check_rows(problem, operands, count);
}

// The product of the first `count` dims.
int64_t leading_size(const DLTensor &tensor, int32_t count);
// The last dim; 1 for rank 0.
int64_t row_size(const DLTensor &tensor);
// The rows there are.
int64_t row_count(const DLTensor &tensor);
int64_t element_count(const DLTensor &tensor);
int64_t element_bytes(const DLTensor &tensor);
// Row-major without gaps.
bool is_dense(const DLTensor &tensor);

} // namespace cpu
