// A host that records what it is told, and calls that are put together by hand.
#ifndef OPDOCK_TESTS_SDK_FAKE_HOST_HPP
#define OPDOCK_TESTS_SDK_FAKE_HOST_HPP

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "opdock/plugin.hpp"

class FakeHost {
  public:
    FakeHost() {
        table_.struct_size = OPDOCK_STRUCT_SIZE(opdock_host_api, device_properties);
        table_.host_data = this;
        table_.log = [](const opdock_host_api *host, std::int32_t level, const char *message) {
            of(host).logged.emplace_back(level, message);
        };
        table_.fail = [](const opdock_host_api *host, opdock_status status, const char *message) {
            of(host).failures.emplace_back(message == nullptr ? "(null)" : message);
            return status;
        };
        table_.call_op = [](const opdock_problem *from, const char *op, const opdock_args *) {
            of(from->host).called_ops.emplace_back(op);
            return of(from->host).call_op_result;
        };
        table_.dim = [](const opdock_problem *problem, const char *name) {
            const FakeHost &fake = of(problem->host);
            const auto found = fake.dims.find(name);
            return found != fake.dims.end() ? found->second : -1;
        };
        table_.device_properties = [](const opdock_host_api *host, DLDevice) -> const opdock_device_properties * {
            return &of(host).properties;
        };
    }
    FakeHost(const FakeHost &) = delete;
    FakeHost &operator=(const FakeHost &) = delete;

    const opdock_host_api *c() const { return &table_; }

    std::vector<std::pair<int, std::string>> logged;
    std::vector<std::string> failures;
    std::vector<std::string> called_ops;
    opdock_status call_op_result = OPDOCK_OK;
    std::map<std::string, std::int64_t, std::less<>> dims;
    opdock_device_properties properties = {};

  private:
    static FakeHost &of(const opdock_host_api *host) {
        return *static_cast<FakeHost *>(const_cast<void *>(host->host_data));
    }

    opdock_host_api table_ = {};
};

inline DLDataType dtype(std::uint32_t packed) {
    return opdock_dtype_unpack(packed);
}

// A tensor descriptor that owns its shape and strides. Without strides it is row-major contiguous.
class FakeTensor {
  public:
    FakeTensor(std::uint32_t packed, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {})
        : shape_(std::move(shape)), strides_(std::move(strides)) {
        if (strides_.empty()) {
            strides_.resize(shape_.size());
            std::int64_t stride = 1;
            for (std::size_t d = shape_.size(); d-- > 0;) {
                strides_[d] = stride;
                stride *= shape_[d];
            }
        }
        tensor_.device = {kDLCPU, 0};
        tensor_.ndim = static_cast<int>(shape_.size());
        tensor_.dtype = dtype(packed);
        tensor_.shape = shape_.data();
        tensor_.strides = strides_.data();
    }
    FakeTensor(const FakeTensor &) = delete;
    FakeTensor &operator=(const FakeTensor &) = delete;

    const DLTensor *c() const { return &tensor_; }

  private:
    std::vector<std::int64_t> shape_;
    std::vector<std::int64_t> strides_;
    DLTensor tensor_ = {};
};

// A problem and its pointers. Parameters are added in the signature's order, inputs first.
class FakeCall {
  public:
    explicit FakeCall(const FakeHost &host) {
        problem_.struct_size = OPDOCK_STRUCT_SIZE(opdock_problem, host_data);
        problem_.device = {kDLCPU, 0};
        problem_.host = host.c();
        call_.struct_size = OPDOCK_STRUCT_SIZE(opdock_call, workspace_size);
    }
    FakeCall(const FakeCall &) = delete;
    FakeCall &operator=(const FakeCall &) = delete;

    FakeCall &input(const FakeTensor &tensor, void *data) { return parameter(problem_.n_inputs, {tensor.c()}, {data}); }
    FakeCall &absent_input() { return parameter(problem_.n_inputs, {nullptr}, {nullptr}); }
    FakeCall &input_list(const std::vector<const DLTensor *> &tensors, const std::vector<void *> &data) {
        return parameter(problem_.n_inputs, tensors, data);
    }
    FakeCall &output(const FakeTensor &tensor, void *data) {
        return parameter(problem_.n_outputs, {tensor.c()}, {data});
    }
    FakeCall &absent_output() { return parameter(problem_.n_outputs, {nullptr}, {nullptr}); }

    FakeCall &attribute(std::uint32_t type, std::int64_t value) {
        opdock_value tagged = {};
        tagged.type = type;
        tagged.as.i = value;
        return attribute(tagged);
    }
    FakeCall &attribute(double value) {
        opdock_value tagged = {};
        tagged.type = OPDOCK_VALUE_FLOAT;
        tagged.as.f = value;
        return attribute(tagged);
    }
    FakeCall &attribute(const opdock_value &value) {
        attributes_.push_back(value);
        return *this;
    }
    FakeCall &knob(std::int64_t value) {
        knobs_.push_back(value);
        return *this;
    }

    // Gives access to fields that have no method here.
    opdock_call &call() { return call_; }
    opdock_problem *problem() {
        problem_.n_tensors = static_cast<std::uint32_t>(tensors_.size());
        problem_.tensors = tensors_.data();
        problem_.tensor_offsets = first_.data();
        problem_.n_attributes = static_cast<std::uint32_t>(attributes_.size());
        problem_.attributes = attributes_.data();
        problem_.n_knobs = static_cast<std::uint32_t>(knobs_.size());
        problem_.knobs = knobs_.data();
        call_.data = data_.data();
        return &problem_;
    }

    opdock::Call view() { return opdock::Call(*problem(), call_); }
    opdock_status run(opdock_kernel kernel) { return kernel(problem(), &call_); }

  private:
    FakeCall &parameter(std::uint32_t &count, const std::vector<const DLTensor *> &tensors,
                        const std::vector<void *> &data) {
        ++count;
        tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
        data_.insert(data_.end(), data.begin(), data.end());
        first_.push_back(static_cast<std::uint32_t>(tensors_.size()));
        return *this;
    }

    opdock_problem problem_ = {};
    opdock_call call_ = {};
    std::vector<const DLTensor *> tensors_;
    std::vector<void *> data_;
    std::vector<std::uint32_t> first_ = {0};
    std::vector<opdock_value> attributes_;
    std::vector<std::int64_t> knobs_;
};

#endif
