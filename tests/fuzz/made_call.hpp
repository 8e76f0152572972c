// Arguments of a call that a signature might accept: each dim name has a size and each dtype variable a dtype. Now and
// then something contradicts the signature. Tensors do not point to memory.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"
#include "signature/solve.hpp"

namespace opdock::fuzz {

class MadeCall {
  public:
    MadeCall(const core::Signature &signature, std::string_view choices);

    // The inputs and attributes, as passed to inference.
    const opdock_args &inputs_only();
    // Takes outputs as inferred; omitted ones are absent.
    void take_outputs(const std::vector<core::InferredOutput> &specs);
    const opdock_args &whole();

  private:
    struct Tensor {
        std::vector<int64_t> shape;
        std::vector<int64_t> strides;
        DLTensor tensor{};
    };

    // The next choice from 0 to count - 1; 0 once all choices are used up.
    uint32_t choose(uint32_t count);
    int64_t size_of(const core::Dim &dim);
    Tensor &make(uint32_t dtype, std::vector<int64_t> shape);
    const DLTensor *input(const core::Parameter &parameter);
    opdock_value value_of(const core::AttributeSpec &attribute);

    const core::Signature &signature_;
    std::string_view choices_;
    std::array<int64_t, core::max_dims> dims_{};
    std::array<uint32_t, core::max_dtype_variables> dtypes_{};
    std::vector<int64_t> ellipsis_;
    uint32_t elements_ = 0;
    std::deque<Tensor> tensors_; // a deque, so that they stay in place
    std::vector<const DLTensor *> inputs_;
    std::vector<const DLTensor *> outputs_;
    std::vector<uint32_t> list_sizes_;
    std::vector<opdock_attribute> attributes_;
    opdock_args args_{};
};

} // namespace opdock::fuzz
