// The arguments of a made-up call. Its tensors have distinct addresses that nothing reads.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "opdock/abi/args.h"
#include "opdock/abi/dtype.h"
#include "opdock/abi/version.h"
#include "text/error.hpp"

namespace opdock::test {

inline constexpr DLDevice cpu{kDLCPU, 0};

struct MadeTensor {
    std::vector<int64_t> shape;
    std::vector<int64_t> strides; // empty: null, contiguous
    uint32_t dtype = OPDOCK_F32;
    uint64_t address = 0;
    DLDevice device = cpu;
    DLTensor tensor{};

    const DLTensor *get() {
        tensor = {};
        tensor.data = reinterpret_cast<void *>(address);
        tensor.device = device;
        tensor.ndim = static_cast<int>(shape.size());
        tensor.dtype = opdock_dtype_unpack(dtype);
        tensor.shape = shape.data();
        tensor.strides = strides.empty() ? nullptr : strides.data();
        return &tensor;
    }
};

inline opdock_value value(int64_t i, uint32_t type = OPDOCK_VALUE_INT) {
    opdock_value made{};
    made.type = type;
    made.as.i = i;
    return made;
}
inline opdock_value value(int i) {
    return value(int64_t{i});
}
inline opdock_value value(bool b) {
    return value(b ? 1 : 0, OPDOCK_VALUE_BOOL);
}
inline opdock_value value(double f) {
    opdock_value made{};
    made.type = OPDOCK_VALUE_FLOAT;
    made.as.f = f;
    return made;
}
inline opdock_value value(const char *s) {
    opdock_value made{};
    made.type = OPDOCK_VALUE_STRING;
    made.count = static_cast<uint32_t>(std::char_traits<char>::length(s));
    made.as.s = s;
    return made;
}
inline opdock_value list_value(uint32_t type, size_t count) {
    opdock_value made{};
    made.type = type;
    made.count = static_cast<uint32_t>(count);
    return made;
}
inline opdock_value value(const std::vector<int64_t> &list) {
    opdock_value made = list_value(OPDOCK_VALUE_INTS, list.size());
    made.as.ints = list.data();
    return made;
}
inline opdock_value value(const std::vector<double> &list) {
    opdock_value made = list_value(OPDOCK_VALUE_FLOATS, list.size());
    made.as.floats = list.data();
    return made;
}
inline opdock_value value(const std::vector<opdock_text> &list) {
    opdock_value made = list_value(OPDOCK_VALUE_STRINGS, list.size());
    made.as.strings = list.data();
    return made;
}
inline opdock_value dtype_value(uint32_t dtype) {
    return value(int64_t{dtype}, OPDOCK_VALUE_DTYPE);
}

class CallArguments {
  public:
    CallArguments &in(uint32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
        inputs_.push_back(&make(dtype, std::move(shape), std::move(strides)));
        return *this;
    }
    CallArguments &out(uint32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
        outputs_.push_back(&make(dtype, std::move(shape), std::move(strides)));
        return *this;
    }
    CallArguments &in_absent() {
        inputs_.push_back(nullptr);
        return *this;
    }
    CallArguments &out_absent() {
        outputs_.push_back(nullptr);
        return *this;
    }
    CallArguments &attribute(const char *name, opdock_value given) {
        attributes_.push_back({name, given});
        return *this;
    }
    CallArguments &attribute(opdock_value given) { return attribute(nullptr, given); }
    CallArguments &lists(std::initializer_list<uint32_t> sizes) {
        list_sizes_ = sizes;
        return *this;
    }

    MadeTensor &input(size_t i) { return *inputs_[i]; }
    MadeTensor &output(size_t i) { return *outputs_[i]; }

    // Valid until the next call of any function here.
    opdock_args &args() {
        input_pointers_.clear();
        output_pointers_.clear();
        for (MadeTensor *made : inputs_) {
            input_pointers_.push_back(made == nullptr ? nullptr : made->get());
        }
        for (MadeTensor *made : outputs_) {
            output_pointers_.push_back(made == nullptr ? nullptr : made->get());
        }
        args_ = {};
        args_.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, workspace_size);
        args_.inputs = input_pointers_.data();
        args_.outputs = output_pointers_.data();
        args_.attributes = attributes_.data();
        args_.list_sizes = list_sizes_.data();
        args_.n_inputs = static_cast<uint32_t>(inputs_.size());
        args_.n_outputs = static_cast<uint32_t>(outputs_.size());
        args_.n_attributes = static_cast<uint32_t>(attributes_.size());
        args_.n_lists = static_cast<uint32_t>(list_sizes_.size());
        return args_;
    }

  private:
    MadeTensor &make(uint32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides) {
        constexpr uint64_t apart = uint64_t{1} << 32;
        const uint64_t address = apart * (tensors_.size() + 1);
        return tensors_.emplace_back(MadeTensor{std::move(shape), std::move(strides), dtype, address, cpu, {}});
    }

    std::deque<MadeTensor> tensors_; // a deque, so that they stay in place
    std::vector<MadeTensor *> inputs_;
    std::vector<MadeTensor *> outputs_;
    std::vector<opdock_attribute> attributes_;
    std::vector<uint32_t> list_sizes_;
    std::vector<const DLTensor *> input_pointers_;
    std::vector<const DLTensor *> output_pointers_;
    opdock_args args_{};
};

// The message of the exception that `work` throws, or "no error". Any status but INVALID_ARGUMENT is marked.
template<class Work>
std::string error_of(Work work) {
    try {
        work();
    } catch (const core::Error &error) {
        return (error.status() == OPDOCK_INVALID_ARGUMENT ? "" : "another status: ") + std::string(error.what());
    }
    return "no error";
}

} // namespace opdock::test
