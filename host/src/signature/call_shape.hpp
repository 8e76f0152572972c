// Owned description of a validated call without its pointers: a kernel's problem points into it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "opdock/opdock.h"
#include "signature/bind.hpp"
#include "signature/signature.hpp"

namespace opdock::core {

struct TensorShape {
    // data is null, byte_offset 0; shape and strides point to the arrays below.
    DLTensor tensor = {};
    std::array<int64_t, OPDOCK_MAX_RANK> shape = {};
    std::array<int64_t, OPDOCK_MAX_RANK> strides = {};
    uint64_t extent = 0;         // bytes from the first element to the end of the last; 0 if empty
    uint64_t alignment_mask = 0; // dtype's size - 1
    bool absent = false;
    bool given_strides = false; // the caller's strides were not null
    bool contiguous = false;    // row-major without gaps
    bool backwards = false;     // negative strides: the tensor includes memory before the first element
};

struct CallShape {
    CallShape(const Signature &signature, const Bound &bound);
    CallShape(const CallShape &) = delete;
    CallShape &operator=(const CallShape &) = delete;

    const Signature *signature;
    std::unique_ptr<TensorShape[]> tensors; // inputs then outputs, flattened
    uint32_t n_tensors = 0;
    uint32_t n_input_tensors = 0;
    std::vector<const DLTensor *> pointers; // into `tensors`; null: absent
    std::vector<uint32_t> first;            // as opdock_problem.tensor_offsets
    std::vector<opdock_value> attributes;   // strings and lists point to the storage below
    std::vector<uint32_t> dtypes;           // of the dtype variables
    DLDevice device;
    bool writes_inputs; // for any pointers

  private:
    std::deque<std::string> strings_;
    std::deque<std::vector<int64_t>> integers_;
    std::deque<std::vector<double>> numbers_;
    std::deque<std::vector<opdock_text>> texts_;
};

} // namespace opdock::core
