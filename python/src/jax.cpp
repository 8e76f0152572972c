#include "jax.hpp"

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dtypes.hpp"
#include "xla_ffi.hpp"

namespace opdock::python {
namespace {

DLDataType dtype_of_xla(int32_t number) {
    const Dtype *found = find_dtype([&](const Dtype &one) { return one.xla == number; });
    if (found == nullptr) {
        throw std::runtime_error("XLA dtype number " + std::to_string(number) + " is not supported by ops");
    }
    return found->dtype;
}

struct KnownOp {
    std::shared_ptr<Host> host;
    Op op;
    std::shared_ptr<const Form> form;
};

// Known ops by name. Never destroyed: programs may run while the process ends.
struct KnownOps {
    std::mutex mutex;
    std::map<std::string, KnownOp, std::less<>> ops;
};

KnownOps &known_ops() {
    static auto &known = *new KnownOps();
    return known;
}

const KnownOp &known_op(const std::string &name) {
    KnownOps &known = known_ops();
    const std::lock_guard lock(known.mutex);
    const auto found = known.ops.find(name);
    if (found == known.ops.end()) {
        throw std::runtime_error("no op '" + name + "' is known to opdock.jax in this process");
    }
    return found->second;
}

// One call. The attributes of XLA's call are those of the op, and these, which opdock.jax adds:
//   opdock.op      the name
//   opdock.given   for each input and then each output, 1 if it is present; for a list, its size
class Call {
  public:
    explicit Call(const xla::CallFrame &frame) : frame_(frame) {}

    void run(bool is_gpu);

  private:
    void read_attributes();
    void add(const KnownOp &op, const xla::Attributes &attributes, int64_t i);
    const DLTensor *view(const xla::Buffers &buffers, int64_t i);

    const xla::CallFrame &frame_;
    std::string name_;
    std::string_view given_;
    DLDevice device_{kDLCPU, 0};
    std::deque<DLTensor> tensors_;
    std::deque<std::string> strings_;
    std::deque<std::vector<opdock_text>> texts_;
    std::vector<const DLTensor *> inputs_;
    std::vector<const DLTensor *> outputs_;
    std::vector<uint32_t> list_sizes_;
    std::vector<Attribute> attributes_;
};

const DLTensor *Call::view(const xla::Buffers &buffers, int64_t i) {
    if (i >= buffers.size || buffers.types[i] != 1) {
        throw std::runtime_error(name_ + ": a tensor is missing");
    }
    const auto &buffer = *static_cast<const xla::Buffer *>(buffers.items[i]);
    DLTensor &tensor = tensors_.emplace_back();
    tensor.data = buffer.data;
    tensor.device = device_;
    tensor.ndim = static_cast<int32_t>(buffer.rank);
    tensor.dtype = dtype_of_xla(buffer.dtype);
    tensor.shape = buffer.dims;
    return &tensor;
}

template<class T>
T scalar(const xla::Scalar &from) {
    T value;
    std::memcpy(&value, from.value, sizeof value);
    return value;
}

void Call::add(const KnownOp &op, const xla::Attributes &attributes, int64_t i) {
    const std::string_view name(attributes.names[i]->data, attributes.names[i]->size);
    for (const AttributeForm &form : op.form->attributes) {
        if (form.name != name) {
            continue;
        }
        const char *key = form.name.c_str();
        const void *item = attributes.items[i];
        const auto text = [&] {
            const auto &given = *static_cast<const xla::Text *>(item);
            return std::string(given.data, given.size);
        };
        if (form.type == "float") {
            attributes_.emplace_back(key, scalar<double>(*static_cast<const xla::Scalar *>(item)));
        } else if (form.type == "int") {
            attributes_.emplace_back(key, scalar<int64_t>(*static_cast<const xla::Scalar *>(item)));
        } else if (form.type == "bool") {
            attributes_.emplace_back(key, scalar<bool>(*static_cast<const xla::Scalar *>(item)));
        } else if (form.type == "string") {
            attributes_.emplace_back(key, strings_.emplace_back(text()));
        } else if (form.type == "dtype") {
            const std::string called = text();
            const Dtype *dtype = find_dtype([&](const Dtype &one) { return one.name == called; });
            if (dtype == nullptr) {
                throw std::runtime_error(name_ + ": there is no dtype '" + called + "'");
            }
            attributes_.emplace_back(key, dtype->dtype);
        } else if (form.type == "int[]") {
            const auto &array = *static_cast<const xla::Array *>(item);
            attributes_.emplace_back(key, std::span(static_cast<const int64_t *>(array.data), array.size));
        } else if (form.type == "float[]") {
            const auto &array = *static_cast<const xla::Array *>(item);
            attributes_.emplace_back(key, std::span(static_cast<const double *>(array.data), array.size));
        } else {
            throw std::runtime_error(name_ + ": attribute '" + form.name +
                                     "' is a list of strings, which XLA does not support");
        }
        return;
    }
}

void Call::read_attributes() {
    const xla::Attributes &attributes = frame_.attributes;
    for (int64_t i = 0; i < attributes.size; ++i) {
        const std::string_view name(attributes.names[i]->data, attributes.names[i]->size);
        const void *item = attributes.items[i];
        if (name == "opdock.op") {
            const auto &text = *static_cast<const xla::Text *>(item);
            name_.assign(text.data, text.size);
        } else if (name == "opdock.given") {
            const auto &text = *static_cast<const xla::Text *>(item);
            given_ = std::string_view(text.data, text.size);
        }
    }
}

// Parses the next number of a text such as "1,0,3".
uint32_t next_number(std::string_view &list) {
    uint32_t number = 0;
    while (!list.empty() && list.front() != ',') {
        number = number * 10 + static_cast<uint32_t>(list.front() - '0');
        list.remove_prefix(1);
    }
    list.remove_prefix(list.empty() ? 0 : 1);
    return number;
}

void Call::run(bool is_gpu) {
    read_attributes();
    const KnownOp &op = known_op(name_);
    void *stream = nullptr;
    if (is_gpu) {
        xla::StreamGetArgs stream_args{sizeof(xla::StreamGetArgs), nullptr, frame_.context, nullptr};
        xla::DeviceOrdinalGetArgs ordinal{sizeof(xla::DeviceOrdinalGetArgs), nullptr, frame_.context, 0};
        if (frame_.api->stream_get(&stream_args) != nullptr || frame_.api->device_ordinal_get(&ordinal) != nullptr) {
            throw std::runtime_error(name_ + ": XLA does not provide its stream");
        }
        stream = stream_args.stream;
        device_ = {kDLCUDA, ordinal.ordinal};
    }
    for (int64_t i = 0; i < frame_.attributes.size; ++i) {
        add(op, frame_.attributes, i);
    }
    const auto read = [&](const std::vector<Parameter> &parameters, const xla::Buffers &buffers,
                          std::vector<const DLTensor *> &to) {
        int64_t at = 0;
        for (const Parameter &parameter : parameters) {
            const uint32_t count = next_number(given_);
            for (uint32_t i = 0; i < count; ++i) {
                to.push_back(view(buffers, at++));
            }
            if (parameter.list) {
                list_sizes_.push_back(count);
            } else if (count == 0) {
                to.push_back(nullptr);
            }
        }
    };
    read(op.form->inputs, frame_.arguments, inputs_);
    read(op.form->outputs, frame_.results, outputs_);
    const auto as_arguments = [](const std::vector<const DLTensor *> &tensors) {
        return TensorArgs(reinterpret_cast<const TensorArg *>(tensors.data()), tensors.size());
    };
    Args args(as_arguments(inputs_), as_arguments(outputs_), attributes_, stream);
    if (!list_sizes_.empty()) {
        args.lists(list_sizes_);
    }
    detail::check(op.op.try_call(args));
}

// True if XLA only asks for the version.
bool answers_metadata(const xla::CallFrame &frame) {
    for (xla::ExtensionBase *one = frame.extensions; one != nullptr; one = one->next) {
        if (one->type == 1) {
            xla::Metadata &metadata = *reinterpret_cast<xla::MetadataExtension *>(one)->metadata;
            metadata.version.major = 0;
            metadata.version.minor = frame.api != nullptr ? frame.api->version.minor : 1;
            metadata.traits = 0;
            return true;
        }
    }
    return false;
}

xla::Error *handle(const xla::CallFrame &frame, bool is_gpu) noexcept {
    if (answers_metadata(frame)) {
        return nullptr;
    }
    const auto refuse = [&](const char *message) {
        xla::ErrorCreateArgs args{sizeof(xla::ErrorCreateArgs), nullptr, message, 9};
        return frame.api->error_create(&args);
    };
    try {
        if (frame.api->version.major != 0) {
            return refuse("opdock only supports version 0 of XLA's C API");
        }
        Call(frame).run(is_gpu);
        return nullptr;
    } catch (const std::exception &error) {
        return refuse(error.what());
    }
}

xla::Error *on_cpu(xla::CallFrame *frame) noexcept {
    return handle(*frame, false);
}

xla::Error *on_gpu(xla::CallFrame *frame) noexcept {
    return handle(*frame, true);
}

} // namespace

void keep_for_jax(const std::shared_ptr<Host> &host, const Op &op, const std::shared_ptr<const Form> &form) {
    KnownOps &known = known_ops();
    const std::lock_guard lock(known.mutex);
    known.ops.try_emplace(form->op, KnownOp{host, op, form});
}

nanobind::tuple jax_handlers() {
    const auto capsule = [](xla::Error *(*function)(xla::CallFrame *)) {
        return nanobind::capsule(reinterpret_cast<void *>(function));
    };
    return nanobind::make_tuple(capsule(on_cpu), capsule(on_gpu));
}

} // namespace opdock::python
