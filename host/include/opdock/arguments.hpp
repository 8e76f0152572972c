// Tensors, attributes and arguments of calls, for embedding programs. Included by opdock/opdock.hpp.
//
// All types here borrow: tensor memory, strings and lists of attributes.
#ifndef OPDOCK_ARGUMENTS_HPP
#define OPDOCK_ARGUMENTS_HPP

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/opdock.h"

namespace opdock {

class Error : public std::runtime_error {
  public:
    Error(opdock_status status, const std::string &message) : std::runtime_error(message), status_(status) {}

    opdock_status status() const noexcept { return status_; }

  private:
    opdock_status status_;
};

namespace detail {

inline void check(opdock_status status) {
    if (status != OPDOCK_OK) [[unlikely]] {
        throw Error(status, opdock_last_error());
    }
}

// Takes ownership of a string returned by the C API.
inline std::string take(char *text) {
    const std::unique_ptr<char, void (*)(char *)> owned(text, opdock_string_free);
    return owned.get();
}

} // namespace detail

inline constexpr DLDataType f32{kDLFloat, 32, 1};
inline constexpr DLDataType f16{kDLFloat, 16, 1};
inline constexpr DLDataType bf16{kDLBfloat, 16, 1};
inline constexpr DLDataType e4m3{OPDOCK_DL_FLOAT8_E4M3FN, 8, 1};
inline constexpr DLDataType e5m2{OPDOCK_DL_FLOAT8_E5M2, 8, 1};
inline constexpr DLDataType i64{kDLInt, 64, 1};
inline constexpr DLDataType i32{kDLInt, 32, 1};
inline constexpr DLDataType u8{kDLUInt, 8, 1};
inline constexpr DLDataType boolean{OPDOCK_DL_BOOL, 8, 1};

inline constexpr DLDevice cpu{kDLCPU, 0};

// Describes a tensor without owning its memory. Row-major contiguous unless strides (in elements) are
// given.
class Tensor {
  public:
    Tensor(void *data, DLDataType dtype, std::span<const int64_t> shape, DLDevice device = cpu,
           std::span<const int64_t> strides = {}) {
        if (shape.size() > OPDOCK_MAX_RANK || (!strides.empty() && strides.size() != shape.size())) {
            throw Error(OPDOCK_INVALID_ARGUMENT, "a tensor has at most 8 dims, and as many strides as dims");
        }
        tensor_.data = data;
        tensor_.device = device;
        tensor_.dtype = dtype;
        tensor_.ndim = static_cast<int32_t>(shape.size());
        int64_t packed = 1;
        for (size_t d = shape.size(); d-- > 0;) {
            shape_[d] = shape[d];
            strides_[d] = strides.empty() ? packed : strides[d];
            packed *= shape[d];
        }
        point_inside();
    }
    Tensor(void *data, DLDataType dtype, std::initializer_list<int64_t> shape, DLDevice device = cpu,
           std::initializer_list<int64_t> strides = {})
        : Tensor(data, dtype, std::span(shape.begin(), shape.size()), device,
                 std::span(strides.begin(), strides.size())) {}
    // Read-only memory: for inputs, except those that the op marks `mut`.
    static Tensor read_only(const void *data, DLDataType dtype, std::span<const int64_t> shape, DLDevice device = cpu,
                            std::span<const int64_t> strides = {}) {
        return {const_cast<void *>(data), dtype, shape, device,
                strides}; // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }
    static Tensor read_only(const void *data, DLDataType dtype, std::initializer_list<int64_t> shape,
                            DLDevice device = cpu, std::initializer_list<int64_t> strides = {}) {
        return read_only(data, dtype, std::span(shape.begin(), shape.size()), device,
                         std::span(strides.begin(), strides.size()));
    }
    Tensor(const Tensor &other) noexcept : tensor_(other.tensor_), shape_(other.shape_), strides_(other.strides_) {
        point_inside();
    }
    Tensor &operator=(const Tensor &other) noexcept {
        tensor_ = other.tensor_;
        shape_ = other.shape_;
        strides_ = other.strides_;
        point_inside();
        return *this;
    }
    ~Tensor() = default;

    const DLTensor &c() const noexcept { return tensor_; }
    void *data() const noexcept { return tensor_.data; }
    void set_data(void *data) noexcept { tensor_.data = data; }
    std::span<const int64_t> shape() const noexcept { return {shape_.data(), static_cast<size_t>(tensor_.ndim)}; }

  private:
    void point_inside() noexcept {
        tensor_.shape = shape_.data();
        tensor_.strides = strides_.data();
    }

    DLTensor tensor_ = {};
    std::array<int64_t, OPDOCK_MAX_RANK> shape_ = {};
    std::array<int64_t, OPDOCK_MAX_RANK> strides_ = {};
};

// A tensor argument: a Tensor, any DLTensor, or nullptr for an absent optional tensor. Borrows.
class TensorArg {
  public:
    TensorArg(const Tensor &tensor) noexcept : tensor_(&tensor.c()) {}
    TensorArg(const Tensor *tensor) noexcept : tensor_(tensor != nullptr ? &tensor->c() : nullptr) {}
    TensorArg(const DLTensor &tensor) noexcept : tensor_(&tensor) {}
    TensorArg(const DLTensor *tensor) noexcept : tensor_(tensor) {}
    TensorArg(std::nullptr_t) noexcept : tensor_(nullptr) {}

  private:
    const DLTensor *tensor_;
};
// A list of arguments is used directly as the C API's array of pointers.
static_assert(sizeof(TensorArg) == sizeof(const DLTensor *));

// {"eps", 1e-6}, or just 1e-6 for the attribute at that position in the signature. Borrows strings and lists.
class Attribute {
  public:
    template<class T>
    Attribute(const char *name, const T &value) noexcept : Attribute(value) {
        attribute_.name = name;
    }
    Attribute(double value) noexcept : Attribute(OPDOCK_VALUE_FLOAT, 0) { attribute_.value.as.f = value; }
    Attribute(int64_t value) noexcept : Attribute(OPDOCK_VALUE_INT, 0) { attribute_.value.as.i = value; }
    template<std::integral T>
    Attribute(T value) noexcept : Attribute(static_cast<int64_t>(value)) {}
    Attribute(bool value) noexcept : Attribute(OPDOCK_VALUE_BOOL, 0) { attribute_.value.as.i = value ? 1 : 0; }
    Attribute(std::string_view text) noexcept : Attribute(OPDOCK_VALUE_STRING, text.size()) {
        attribute_.value.as.s = text.data() != nullptr ? text.data() : "";
    }
    Attribute(const char *text) noexcept : Attribute(std::string_view(text)) {}
    Attribute(const std::string &text) noexcept : Attribute(std::string_view(text)) {}
    Attribute(DLDataType dtype) noexcept : Attribute(OPDOCK_VALUE_DTYPE, 0) {
        attribute_.value.as.i = opdock_dtype_pack(dtype);
    }
    Attribute(std::span<const int64_t> list) noexcept : Attribute(OPDOCK_VALUE_INTS, list.size()) {
        attribute_.value.as.ints = list.data();
    }
    Attribute(const std::vector<int64_t> &list) noexcept : Attribute(std::span<const int64_t>(list)) {}
    Attribute(std::span<const double> list) noexcept : Attribute(OPDOCK_VALUE_FLOATS, list.size()) {
        attribute_.value.as.floats = list.data();
    }
    Attribute(const std::vector<double> &list) noexcept : Attribute(std::span<const double>(list)) {}
    Attribute(std::span<const opdock_text> list) noexcept : Attribute(OPDOCK_VALUE_STRINGS, list.size()) {
        attribute_.value.as.strings = list.data();
    }

    const opdock_attribute &c() const noexcept { return attribute_; }

  private:
    Attribute(uint32_t type, size_t count) noexcept : attribute_{nullptr, {type, static_cast<uint32_t>(count), {}}} {}

    opdock_attribute attribute_;
};
static_assert(sizeof(Attribute) == sizeof(opdock_attribute));

using TensorArgs = std::span<const TensorArg>;
using Attributes = std::span<const Attribute>;

// The arguments of one call. Op's functions construct it from their parameters; lists of tensors and other rare
// features need it explicitly. Borrows everything.
class Args {
  public:
    Args(TensorArgs inputs, TensorArgs outputs, Attributes attributes = {}, void *stream = nullptr) noexcept {
        args_.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, stream);
        args_.flags = 0;
        args_.n_inputs = static_cast<uint32_t>(inputs.size());
        args_.n_outputs = static_cast<uint32_t>(outputs.size());
        args_.n_attributes = static_cast<uint32_t>(attributes.size());
        args_.n_lists = 0;
        args_.inputs = reinterpret_cast<const DLTensor *const *>(inputs.data());
        args_.outputs = reinterpret_cast<const DLTensor *const *>(outputs.data());
        args_.attributes = reinterpret_cast<const opdock_attribute *>(attributes.data());
        args_.stream = stream;
    }

    // One size for each list parameter, in signature order.
    Args &lists(std::span<const uint32_t> sizes) noexcept {
        use_all_fields();
        args_.list_sizes = sizes.data();
        args_.n_lists = static_cast<uint32_t>(sizes.size());
        return *this;
    }
    // Sets the device of a call without tensors.
    Args &on(DLDevice device) noexcept {
        use_all_fields();
        args_.device = device;
        return *this;
    }
    Args &workspace(void *memory, uint64_t bytes) noexcept {
        use_all_fields();
        args_.workspace = memory;
        args_.workspace_size = bytes;
        return *this;
    }

    const opdock_args &c() const noexcept { return args_; }

  private:
    void use_all_fields() noexcept {
        if (args_.struct_size == OPDOCK_STRUCT_SIZE(opdock_args, stream)) {
            args_.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, workspace_size);
            args_.list_sizes = nullptr;
            args_.device = {};
            args_.workspace = nullptr;
            args_.workspace_size = 0;
        }
    }

    opdock_args args_; // fields after `stream` are set when first used
};

} // namespace opdock

#endif
