#include "call.hpp"

#include <algorithm>
#include <array>

#include "limits.hpp"

namespace tvm_ffi {
namespace {

// Makes the stream of a call tvm-ffi's current stream of this thread, and restores the previous one.
class CurrentStream {
  public:
    CurrentStream(const Functions &functions, DLDevice device, void *stream)
        : functions_(functions), device_(device), stream_(stream), original_(stream),
          status_(device.device_type == kDLCPU ? 0 : set(stream, &original_)) {}
    ~CurrentStream() {
        if (original_ != stream_) { // setting a stream takes as long as the rest of a call
            set(original_, nullptr);
        }
    }
    CurrentStream(const CurrentStream &) = delete;
    CurrentStream &operator=(const CurrentStream &) = delete;

    int status() const { return status_; }

  private:
    int set(void *stream, void **original) const {
        return functions_.env_set_stream(device_.device_type, device_.device_id, stream, original);
    }

    const Functions &functions_;
    const DLDevice device_;
    void *const stream_;
    void *original_; // the stream itself if nothing was set
    const int status_;
};

bool is_standard(const opdock_value &value, const Left &left) {
    switch (value.type) {
    case OPDOCK_VALUE_NONE:
        return left.type == OPDOCK_VALUE_NONE;
    case OPDOCK_VALUE_INT:
    case OPDOCK_VALUE_BOOL:
    case OPDOCK_VALUE_DTYPE:
        return value.type == left.type && value.as.i == left.integer;
    case OPDOCK_VALUE_FLOAT:
        return value.type == left.type && value.as.f == left.real;
    case OPDOCK_VALUE_STRING:
        return value.type == left.type && std::string_view(value.as.s, value.count) == left.text;
    default: // lists
        return value.type == left.type && value.count == 0;
    }
}

// Merges the dims that `...` stands for into one. The tensor is contiguous.
void flatten(std::vector<std::int64_t> &shape, std::vector<std::int64_t> &strides, const Argument &argument) {
    const auto first = shape.begin() + argument.before, last = shape.end() - argument.after;
    std::int64_t product = 1;
    std::for_each(first, last, [&](std::int64_t size) { product *= size; });
    shape.insert(shape.erase(first, last), product);
    strides.assign(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) {
        strides[i - 1] = strides[i] * shape[i];
    }
}

void add_tensor(Plan &plan, const DLTensor &tensor, const Argument &argument) {
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    std::vector<std::int64_t> shape(tensor.shape, tensor.shape + rank), strides(tensor.strides, tensor.strides + rank);
    if (argument.flatten) {
        flatten(shape, strides, argument);
    }
    DLTensor descriptor = tensor;
    descriptor.byte_offset = 0;
    descriptor.ndim = static_cast<std::int32_t>(shape.size());
    shape.insert(shape.end(), strides.begin(), strides.end());
    std::vector<std::int64_t> &dims = plan.dims.emplace_back(std::move(shape));
    descriptor.shape = dims.data();
    descriptor.strides = dims.data() + descriptor.ndim;
    plan.tensors.push_back({descriptor, argument.index, static_cast<std::uint32_t>(plan.values.size())});
}

const char *keep_text(Plan &plan, std::string_view text) {
    return plan.texts.emplace_back(std::make_unique<std::string>(text))->c_str();
}

Value value_of(Plan &plan, const opdock_value &attribute) {
    Value value = {};
    switch (attribute.type) {
    case OPDOCK_VALUE_INT:
    case OPDOCK_VALUE_BOOL:
        value.type = attribute.type == OPDOCK_VALUE_INT ? type_int : type_bool;
        value.integer = attribute.as.i;
        break;
    case OPDOCK_VALUE_FLOAT:
        value.type = type_float;
        value.real = attribute.as.f;
        break;
    case OPDOCK_VALUE_STRING:
        value.type = type_raw_text;
        value.text = keep_text(plan, {attribute.as.s, attribute.count});
        break;
    case OPDOCK_VALUE_DTYPE:
        value.type = type_dtype;
        value.dtype = opdock_dtype_unpack(static_cast<std::uint32_t>(attribute.as.i));
        break;
    default: // absent; plugin-pack refuses lists
        break;
    }
    return value;
}

bool has_elements(const DLTensor *tensor) {
    return tensor != nullptr &&
           std::all_of(tensor->shape, tensor->shape + tensor->ndim, [](std::int64_t size) { return size != 0; });
}

// The value of an argument; tensors are handled elsewhere.
Value value_of(Plan &plan, const opdock_problem &problem, const Argument &argument) {
    using Source = Argument::Source;
    Value value = {};
    switch (argument.source) {
    case Source::attribute:
        return value_of(plan, problem.attributes[argument.index]);
    case Source::knob:
        value.type = argument.integer != 0 ? type_bool : type_int;
        value.integer = problem.knobs[argument.index];
        break;
    case Source::integer:
    case Source::boolean:
        value.type = argument.source == Source::integer ? type_int : type_bool;
        value.integer = argument.integer;
        break;
    case Source::real:
        value.type = type_float;
        value.real = argument.real;
        break;
    case Source::text:
        value.type = type_raw_text;
        value.text = keep_text(plan, argument.text);
        break;
    default:
        break;
    }
    return value;
}

// True for exceptions that a function raises before it does any work: it cannot serve the call.
bool is_refusal(const std::string &kind) {
    constexpr std::array<std::string_view, 3> refusals = {"TypeError", "ValueError", "NotImplementedError"};
    return std::find(refusals.begin(), refusals.end(), kind) != refusals.end();
}

[[gnu::cold, gnu::noinline]] opdock::Status raised(const opdock::Call &call, const Entry &entry, int status) {
    const Raised error = take_error(entry.library().functions(), status);
    if (!error.backtrace.empty()) {
        call.log(OPDOCK_LOG_DEBUG, entry.implementation.function + " raised " + error.text() + "\n" + error.backtrace);
    }
    std::string message = entry.implementation.function + " raised " + error.text();
    if (is_refusal(error.kind)) {
        return opdock::unsupported(std::move(message));
    }
    return error.kind == "MemoryError" ? opdock::out_of_memory(std::move(message)) : opdock::failed(std::move(message));
}

} // namespace

opdock::Status available(const opdock::Device &device) {
    auto &entry = *device.user_data<Entry>();
    std::call_once(entry.looked_up, [&entry] {
        Library &library = entry.library();
        entry.function = library.why_not().empty() ? library.find(entry.module, entry.implementation.function)
                                                   : Function{nullptr, library.why_not()};
    });
    return entry.function.why_not.empty() ? opdock::Status() : opdock::unsupported(entry.function.why_not);
}

opdock::Status supports(const opdock::Problem &problem) {
    const opdock_problem &asked = problem.c();
    const auto &entry = *problem.user_data<const Entry>();
    for (const Left &left : entry.implementation.left) {
        if (left.source == Argument::Source::tensor && asked.tensors[left.index] != nullptr) {
            return opdock::unsupported(entry.implementation.function + " does not support '" + left.name + "'");
        }
        if (left.source == Argument::Source::attribute && !is_standard(asked.attributes[left.index], left)) {
            return opdock::unsupported(entry.implementation.function + " does not support '" + left.name +
                                       "' other than the signature's");
        }
    }
    const auto dim = [&asked](const std::string &name) { return asked.host->dim(&asked, name.c_str()); };
    for (const Limit &limit : entry.implementation.limits) {
        if (!holds(limit, dim)) {
            return opdock::unsupported(entry.implementation.function + " only takes calls with " + limit.text);
        }
    }
    return {};
}

opdock::Status make_plan(const opdock::Problem &problem, std::unique_ptr<Plan> &plan) {
    const opdock_problem &asked = problem.c();
    const Implementation &implementation = problem.user_data<const Entry>()->implementation;
    auto made = std::make_unique<Plan>();
    made->is_empty = !implementation.written.empty() &&
                     std::none_of(implementation.written.begin(), implementation.written.end(),
                                  [&asked](std::uint32_t i) { return has_elements(asked.tensors[i]); });
    for (const Argument &argument : implementation.arguments) {
        Value value = {};
        if (argument.source != Argument::Source::tensor) {
            value = value_of(*made, asked, argument);
        } else if (const DLTensor *tensor = asked.tensors[argument.index]) {
            value.type = type_tensor;
            add_tensor(*made, *tensor, argument);
        }
        made->values.push_back(value);
    }
    plan = std::move(made);
    return {};
}

opdock::Status call(const opdock::Call &call) {
    const auto &entry = *call.user_data<const Entry>();
    const Plan &plan = *call.plan<const Plan>();
    if (plan.is_empty) {
        return {};
    }
    const Functions &functions = entry.library().functions();
    std::array<Value, most_arguments> values;     // set below, as many as there are
    std::array<DLTensor, most_arguments> tensors; // likewise
    std::copy(plan.values.begin(), plan.values.end(), values.begin());
    DLTensor *next = tensors.data();
    for (const Plan::Tensor &tensor : plan.tensors) {
        *next = tensor.descriptor;
        next->data = call.call().data[tensor.parameter];
        values[tensor.argument].tensor = next++;
    }
    const CurrentStream stream(functions, call.device(), call.stream());
    if (stream.status() != 0) {
        return opdock::failed_clean("tvm-ffi does not accept the stream: " +
                                    take_error(functions, stream.status()).text());
    }
    Value result = {};
    const int status = functions.function_call(entry.function.handle, values.data(),
                                               static_cast<std::int32_t>(plan.values.size()), &result);
    if (status != 0) {
        return raised(call, entry, status);
    }
    if (result.type >= type_object) {
        functions.object_dec_ref(result.object);
    }
    return {};
}

} // namespace tvm_ffi
