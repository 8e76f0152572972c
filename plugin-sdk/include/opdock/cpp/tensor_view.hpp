// SPDX-License-Identifier: Apache-2.0
// A typed tensor: a pointer to the first element with a shape and strides.
//
// Most kernels work on rows (the last dimension) and view a tensor of any rank as rows() of them:
//
//     for (std::int64_t r = 0; r < x.rows(); ++r) {
//         const auto row = x.row(r);         // any strides
//         for (std::int64_t i = 0; i < row.size(); ++i)
//             sum += float(row[i]);
//     }
//
// If is_contiguous() is true, row r is x.data() + r * x.size(-1), which compilers can vectorize.
#ifndef OPDOCK_CPP_TENSOR_VIEW_HPP
#define OPDOCK_CPP_TENSOR_VIEW_HPP

#include <cstddef>
#include <cstdint>

#include <dlpack/dlpack.h>

namespace opdock {

// One row: elements a fixed stride apart.
template<class T>
class Row {
  public:
    Row(T *data, std::int64_t size, std::int64_t stride) noexcept : data_(data), size_(size), stride_(stride) {}

    T *data() const noexcept { return data_; }
    std::int64_t size() const noexcept { return size_; }
    // In elements.
    std::int64_t stride() const noexcept { return stride_; }
    bool is_contiguous() const noexcept { return stride_ == 1 || size_ <= 1; }
    T &operator[](std::int64_t i) const noexcept { return data_[i * stride_]; }

  private:
    T *data_;
    std::int64_t size_;
    std::int64_t stride_;
};

// Two words, passed by value. The descriptor it refers to belongs to the host and outlives the call.
template<class T>
class TensorView {
  public:
    // An absent optional parameter.
    TensorView() noexcept = default;
    TensorView(T *data, const DLTensor *tensor) noexcept : data_(data), tensor_(tensor) {}

    // True if there is a tensor. A tensor without elements counts, and its data() is null.
    explicit operator bool() const noexcept { return tensor_ != nullptr; }

    T *data() const noexcept { return data_; }
    int ndim() const noexcept { return tensor_->ndim; }
    // Negative dimensions count from the end: size(-1) is that of the last one. A tensor of rank 0 acts as one row of
    // one element: size(-1) is 1 and stride(-1) is 1.
    std::int64_t size(int dimension) const noexcept {
        return ndim() == 0 ? 1 : tensor_->shape[dimension < 0 ? dimension + ndim() : dimension];
    }
    // In elements.
    std::int64_t stride(int dimension) const noexcept {
        return ndim() == 0 ? 1 : tensor_->strides[dimension < 0 ? dimension + ndim() : dimension];
    }
    std::int64_t numel() const noexcept { return rows() * size(-1); }
    // The number of rows: the product of all dimensions except the last.
    std::int64_t rows() const noexcept {
        std::int64_t product = 1;
        for (int d = 0; d < ndim() - 1; ++d)
            product *= tensor_->shape[d];
        return product;
    }
    // True for row-major without gaps, ignoring strides of dimensions of size 1, and if there are no elements.
    bool is_contiguous() const noexcept {
        std::int64_t expected = 1;
        bool packed = true;
        for (int d = ndim() - 1; d >= 0; --d) {
            if (tensor_->shape[d] == 0)
                return true;
            packed = packed && (tensor_->shape[d] == 1 || tensor_->strides[d] == expected);
            expected *= tensor_->shape[d];
        }
        return packed;
    }

    // Row `index` in row-major order of the leading dimensions. Up to rank 2 this takes one multiplication; each
    // further dimension adds a division. Rows without elements have a null pointer.
    Row<T> row(std::int64_t index) const noexcept {
        return {data_ == nullptr ? nullptr : data_ + offset(index, ndim() - 1), size(-1), stride(-1)};
    }

    // The element at a row-major position, whatever the strides: statistics[r] belongs to row r of its tensor.
    T &operator[](std::int64_t index) const noexcept { return data_[offset(index, ndim())]; }

    // The element at one index per dimension.
    template<class... Indices>
    T &operator()(Indices... indices) const noexcept {
        std::int64_t at = 0;
        [[maybe_unused]] int dimension = 0; // without indices
        ((at += static_cast<std::int64_t>(indices) * stride(dimension++)), ...);
        return data_[at];
    }

  private:
    // Offset of position `index`, row-major, within the first `dimensions` dimensions.
    std::int64_t offset(std::int64_t index, int dimensions) const noexcept {
        std::int64_t at = 0;
        for (int d = dimensions - 1; d > 0; --d) {
            const std::int64_t size = tensor_->shape[d];
            at += index % size * tensor_->strides[d];
            index /= size;
        }
        return dimensions > 0 ? at + index * tensor_->strides[0] : at;
    }

    T *data_ = nullptr;
    const DLTensor *tensor_ = nullptr;
};

} // namespace opdock

#endif
