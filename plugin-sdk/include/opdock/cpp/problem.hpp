// SPDX-License-Identifier: Apache-2.0
// Typed access to opdock_problem and opdock_call. Reading a parameter or attribute that does not exist, or as a wrong
// type, is a plugin error and throws; the firewall turns it into a FAILED status whose message names both.
#ifndef OPDOCK_CPP_PROBLEM_HPP
#define OPDOCK_CPP_PROBLEM_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "opdock/abi/call.h"
#include "opdock/abi/device.h"
#include "opdock/abi/host.h"
#include "opdock/abi/problem.h"
#include "opdock/cpp/dtype.hpp"
#include "opdock/cpp/tensor_view.hpp"

namespace opdock {

// Borrowed contiguous elements.
template<class T>
class Range {
  public:
    Range(const T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    const T *begin() const noexcept { return data_; }
    const T *end() const noexcept { return data_ + size_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    const T &operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    const T *data_;
    std::size_t size_;
};

namespace detail {

// Out of line and cold, so that a passing check costs only a compare.
[[noreturn, gnu::cold, gnu::noinline]] inline void no_such(const char *what, std::uint32_t index, std::uint32_t count) {
    throw std::logic_error("the implementation reads " + std::string(what) + " " + std::to_string(index) +
                           ", but the call has " + std::to_string(count));
}

inline const char *value_type_name(std::uint32_t type) noexcept {
    constexpr const char *names[] = {"absent", "int",         "float",         "bool",          "string",
                                     "dtype",  "list of int", "list of float", "list of string"};
    return type < sizeof names / sizeof *names ? names[type] : "of an unknown type";
}

[[noreturn, gnu::cold, gnu::noinline]] inline void wrong_attribute(std::uint32_t index, std::uint32_t expected,
                                                                   std::uint32_t found) {
    throw std::logic_error("the implementation reads attribute " + std::to_string(index) + " as " +
                           value_type_name(expected) + ", but it is " + value_type_name(found));
}

// `expected` is 0 for a type that is not opdock's: only its size is known.
[[noreturn, gnu::cold, gnu::noinline]] inline void
wrong_dtype(const char *what, std::uint32_t index, std::uint32_t expected, std::size_t size, DLDataType found) {
    const std::string wanted =
        expected != 0 ? dtype_name(opdock_dtype_unpack(expected)) : "elements of " + std::to_string(size) + " bytes";
    throw std::logic_error("the implementation reads " + std::string(what) + " " + std::to_string(index) + " as " +
                           wanted + ", but it is " + dtype_name(found));
}

} // namespace detail

// The device about which an implementation is asked before there is a problem. Converts to a DLDevice.
class Device {
  public:
    Device(const opdock_host_api &host, void *user_data, DLDevice device) noexcept
        : host_(&host), user_data_(user_data), device_(device) {}

    DLDevice c() const noexcept { return device_; }
    operator DLDevice() const noexcept { return device_; }
    const opdock_host_api &host() const noexcept { return *host_; }

    // Null if the device's provider does not report them.
    const opdock_device_properties *properties() const { return host_->device_properties(host_, device_); }
    // The implementation's registered user_data.
    template<class T>
    T *user_data() const noexcept {
        return static_cast<T *>(user_data_);
    }
    // Writes one line to the host's log; `level` is an OPDOCK_LOG_ value.
    void log(std::int32_t level, const std::string &message) const { host_->log(host_, level, message.c_str()); }

  private:
    const opdock_host_api *host_;
    void *user_data_;
    DLDevice device_;
};

// Everything about a call except the data. Indices count parameters, attributes and knobs in the order in which the
// signature or the implementation declares them.
class Problem {
  public:
    explicit Problem(const opdock_problem &problem) noexcept : problem_(&problem) {}

    const opdock_problem &c() const noexcept { return *problem_; }

    // Null if absent. Only shape and strides are valid; take data from Call.
    const DLTensor *input(std::uint32_t i) const { return problem_->tensors[first(input_parameter(i))]; }
    const DLTensor *output(std::uint32_t i) const { return problem_->tensors[first(output_parameter(i))]; }
    bool has_input(std::uint32_t i) const { return present(input_parameter(i)); }
    bool has_output(std::uint32_t i) const { return present(output_parameter(i)); }
    // The tensors of a list parameter.
    Range<const DLTensor *> inputs_of(std::uint32_t i) const { return tensors_of(input_parameter(i)); }
    Range<const DLTensor *> outputs_of(std::uint32_t i) const { return tensors_of(output_parameter(i)); }

    double get_float(std::uint32_t i) const { return attribute(i, OPDOCK_VALUE_FLOAT).as.f; }
    std::int64_t get_int(std::uint32_t i) const { return attribute(i, OPDOCK_VALUE_INT).as.i; }
    bool get_bool(std::uint32_t i) const { return attribute(i, OPDOCK_VALUE_BOOL).as.i != 0; }
    // Also NUL-terminated.
    std::string_view get_string(std::uint32_t i) const {
        const opdock_value &value = attribute(i, OPDOCK_VALUE_STRING);
        return {value.as.s, value.count};
    }
    DLDataType get_dtype(std::uint32_t i) const {
        return opdock_dtype_unpack(static_cast<std::uint32_t>(attribute(i, OPDOCK_VALUE_DTYPE).as.i));
    }
    Range<std::int64_t> get_ints(std::uint32_t i) const {
        const opdock_value &value = attribute(i, OPDOCK_VALUE_INTS);
        return {value.as.ints, value.count};
    }
    Range<double> get_floats(std::uint32_t i) const {
        const opdock_value &value = attribute(i, OPDOCK_VALUE_FLOATS);
        return {value.as.floats, value.count};
    }
    Range<opdock_text> get_strings(std::uint32_t i) const {
        const opdock_value &value = attribute(i, OPDOCK_VALUE_STRINGS);
        return {value.as.strings, value.count};
    }
    // False for an absent optional attribute.
    bool has_attribute(std::uint32_t i) const {
        if (i >= problem_->n_attributes)
            detail::no_such("attribute", i, problem_->n_attributes);
        return problem_->attributes[i].type != OPDOCK_VALUE_NONE;
    }

    std::int64_t knob(std::uint32_t i) const {
        if (i >= problem_->n_knobs)
            detail::no_such("knob", i, problem_->n_knobs);
        return problem_->knobs[i];
    }

    // The size of a dim by its name in the plugin's signature; "rows" is the number of elements that `...` stands for.
    std::int64_t dim(const char *name) const {
        const std::int64_t size = problem_->host->dim(problem_, name);
        if (size < 0)
            throw std::logic_error("the implementation asks for dim '" + std::string(name) +
                                   "', but the signature has no such dim");
        return size;
    }

    DLDevice device() const noexcept { return problem_->device; }
    // Null if the device's provider does not report them.
    const opdock_device_properties *device_properties() const {
        return problem_->host->device_properties(problem_->host, problem_->device);
    }
    template<class T>
    T *user_data() const noexcept {
        return static_cast<T *>(problem_->user_data);
    }
    // The state made by Impl::device_state and Impl::plan.
    template<class T>
    T *device_state() const noexcept {
        return static_cast<T *>(problem_->device_state);
    }
    template<class T>
    T *plan() const noexcept {
        return static_cast<T *>(problem_->plan);
    }

    // Writes one line to the host's log; `level` is an OPDOCK_LOG_ value.
    void log(std::int32_t level, const std::string &message) const {
        problem_->host->log(problem_->host, level, message.c_str());
    }

  protected:
    std::uint32_t input_parameter(std::uint32_t i) const {
        if (i >= problem_->n_inputs)
            detail::no_such("input", i, problem_->n_inputs);
        return i;
    }
    std::uint32_t output_parameter(std::uint32_t i) const {
        if (i >= problem_->n_outputs)
            detail::no_such("output", i, problem_->n_outputs);
        return problem_->n_inputs + i;
    }
    std::uint32_t first(std::uint32_t parameter) const noexcept { return problem_->tensor_offsets[parameter]; }

  private:
    bool present(std::uint32_t parameter) const noexcept {
        return first(parameter) < first(parameter + 1) && problem_->tensors[first(parameter)] != nullptr;
    }
    Range<const DLTensor *> tensors_of(std::uint32_t parameter) const noexcept {
        return {problem_->tensors + first(parameter), first(parameter + 1) - first(parameter)};
    }
    const opdock_value &attribute(std::uint32_t i, std::uint32_t type) const {
        if (i >= problem_->n_attributes)
            detail::no_such("attribute", i, problem_->n_attributes);
        const opdock_value &value = problem_->attributes[i];
        if (value.type != type)
            detail::wrong_attribute(i, type, value.type);
        return value;
    }

    const opdock_problem *problem_;
};

// A problem with its pointers: the argument of a kernel.
class Call : public Problem {
  public:
    Call(const opdock_problem &problem, const opdock_call &call) noexcept : Problem(problem), call_(&call) {}

    const opdock_call &call() const noexcept { return *call_; }

    using Problem::input;
    using Problem::output;

    // input<const float>(0), or input<float>(0) for an input that the signature marks `mut`. An absent tensor gives a
    // view that converts to false. `item` selects a tensor of a list.
    template<class T>
    TensorView<T> input(std::uint32_t i, std::uint32_t item = 0) const {
        return view<T>("input", i, input_parameter(i), item);
    }
    template<class T>
    TensorView<T> output(std::uint32_t i, std::uint32_t item = 0) const {
        return view<T>("output", i, output_parameter(i), item);
    }

    // The device's native stream; meaningless on the CPU.
    void *stream() const noexcept { return call_->stream; }
    // At least as many bytes as the implementation's workspace_size requested, aligned to 256.
    void *workspace() const noexcept { return call_->workspace; }
    std::uint64_t workspace_size() const noexcept { return call_->workspace_size; }

    // Runs another op under the policy in force; never this op's own implementation. Kernels should return its status.
    Status call_op(const char *op, const opdock_args &args) const { return Status(c().host->call_op(&c(), op, &args)); }

  private:
    template<class T>
    TensorView<T> view(const char *what, std::uint32_t i, std::uint32_t parameter, std::uint32_t item) const {
        const std::uint32_t at = first(parameter) + item;
        if (at >= first(parameter + 1))
            detail::no_such("tensor of the list", item, first(parameter + 1) - first(parameter));
        const DLTensor *tensor = c().tensors[at];
        if (tensor == nullptr)
            return {};
        if (!holds<T>(tensor->dtype))
            detail::wrong_dtype(what, i, detail::packed_dtype<std::remove_const_t<T>>, sizeof(T), tensor->dtype);
        return {static_cast<T *>(call_->data[at]), tensor};
    }

    const opdock_call *call_;
};

} // namespace opdock

#endif
