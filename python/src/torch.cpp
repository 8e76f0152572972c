#include "torch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <memory_resource>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include "dtypes.hpp"
#include "torch_abi.hpp"

namespace opdock::python {
namespace torch_abi {
namespace {

// Looks up a symbol in torch's libraries, which have no fixed path; null if none of them is loaded.
void *loaded(const char *name) {
    return dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
}

template<class Function>
void find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
        throw std::runtime_error("torch has no function " + std::string(name) +
                                 "; opdock needs torch 2.10 or a later one");
    }
}

Api found() {
    void *cpu = loaded("libtorch_cpu.so");
    if (cpu == nullptr) {
        throw std::runtime_error("torch is not imported, or its libtorch_cpu.so is not a library of its own");
    }
    Api api{};
    find(cpu, "aoti_torch_get_data_ptr", api.tensor_data);
    find(cpu, "aoti_torch_get_dim", api.tensor_ndim);
    find(cpu, "aoti_torch_get_sizes", api.tensor_sizes);
    find(cpu, "aoti_torch_get_strides", api.tensor_strides);
    find(cpu, "aoti_torch_get_dtype", api.tensor_dtype);
    find(cpu, "aoti_torch_get_device_type", api.tensor_device_type);
    find(cpu, "aoti_torch_get_device_index", api.tensor_device_index);
    find(cpu, "aoti_torch_delete_tensor_object", api.tensor_delete);
    find(cpu, "aoti_torch_empty_strided", api.empty_strided);
    find(cpu, "aoti_torch_copy_", api.copy);
    find(cpu, "torch_new_list_reserve_size", api.list_new);
    find(cpu, "torch_list_size", api.list_size);
    find(cpu, "torch_list_get_item", api.list_get);
    find(cpu, "torch_list_push_back", api.list_push);
    find(cpu, "torch_delete_list", api.list_delete);
    find(cpu, "torch_string_length", api.string_length);
    find(cpu, "torch_string_c_str", api.string_data);
    find(cpu, "torch_delete_string", api.string_delete);
    find(cpu, "aoti_torch_library_init_impl", api.library_implementing);
    find(cpu, "torch_library_impl", api.library_implement);
    void *hip = loaded("libtorch_hip.so");
    void *cuda = hip != nullptr ? hip : loaded("libtorch_cuda.so");
    if (cuda != nullptr) {
        find(cuda, "aoti_torch_get_current_cuda_stream", api.cuda_stream);
        find(cuda, "aoti_torch_create_cuda_stream_guard", api.cuda_stream_enter);
        find(cuda, "aoti_torch_delete_cuda_stream_guard", api.cuda_stream_leave);
    }
    api.cuda_is_hip = hip != nullptr;
    return api;
}

} // namespace

const Api &api() {
    static const Api found_once = found();
    return found_once;
}

} // namespace torch_abi

namespace {

using torch_abi::api;
using torch_abi::Value;

void check(int32_t failed, const char *what) {
    if (failed != 0) {
        throw std::runtime_error(std::string("torch failed to ") + what);
    }
}

DLDataType dtype_of_torch(int32_t number) {
    const Dtype *found = find_dtype([&](const Dtype &one) { return one.torch == number; });
    if (found == nullptr) {
        throw std::runtime_error("torch dtype number " + std::to_string(number) + " is not supported by ops");
    }
    return found->dtype;
}

int32_t torch_number_of(DLDataType dtype) {
    const Dtype *found = find_dtype([&](const Dtype &one) {
        return one.dtype.code == dtype.code && one.dtype.bits == dtype.bits && one.dtype.lanes == dtype.lanes;
    });
    if (found == nullptr) {
        throw std::runtime_error("an output has a dtype that torch lacks");
    }
    return found->torch;
}

// Device types in torch's numbering (c10::DeviceType), which is frozen too.
enum : int32_t { torch_cpu = 0, torch_cuda = 1, torch_private_use = 20 };

DLDevice device_of(int32_t type, int32_t index) {
    switch (type) {
    case torch_cpu:
        return {kDLCPU, 0};
    case torch_cuda:
        return {api().cuda_is_hip ? kDLROCM : kDLCUDA, index};
    default:
        return {kDLExtDev, index};
    }
}

int32_t type_of(DLDevice device) {
    return device.device_type == kDLCPU ? torch_cpu : device.device_type == kDLExtDev ? torch_private_use : torch_cuda;
}

template<class T>
T as(Value value) {
    T result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

template<class T>
Value value_of(T from) {
    Value value = 0;
    std::memcpy(&value, &from, sizeof from);
    return value;
}

class Kernel {
  public:
    Kernel(std::shared_ptr<Host> host, Op op, const Form &form, bool all_outputs)
        : host_(std::move(host)), op_(op), form_(form), all_outputs_(all_outputs) {}

    void run(Value *stack) const;

  private:
    class Call;

    std::shared_ptr<Host> host_;
    Op op_;
    Form form_;
    bool all_outputs_;
    // One bit for each DLDeviceType on which an op refused views but accepted copies of them.
    mutable std::atomic<uint32_t> takes_no_views_ = 0;
};

// One call; owns the values taken from the stack.
class Kernel::Call {
  public:
    explicit Call(const Kernel &kernel) : kernel_(kernel) {}
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    ~Call() {
        for (torch_abi::Tensor *handle : handles_) {
            api().tensor_delete(handle);
        }
        for (torch_abi::String *string : string_handles_) {
            api().string_delete(string);
        }
    }

    // Puts the results in the place of the arguments.
    void run(Value *stack);

  private:
    void take_all(const Value *stack);
    void take(const Parameter &input, Value value);
    void take(const AttributeForm &attribute, Value value);
    void take_list(const AttributeForm &attribute, Value value);
    opdock_text text_of(Value value);
    void view(const Parameter &input, torch_abi::Tensor *tensor);
    DLTensor *made(const opdock_tensor_spec &spec, DLDevice device);
    void make_outputs();
    opdock_args args();
    bool copy_views();
    void compute();
    [[noreturn]] void refuse(const std::string &why) const {
        throw std::runtime_error("op '" + kernel_.form_.op + "': " + why + "\n  " + kernel_.form_.signature);
    }

    // Declared first, because the other members use it.
    std::array<std::byte, 4096> memory_;
    std::pmr::monotonic_buffer_resource pool_{memory_.data(), memory_.size()};

    const Kernel &kernel_;
    std::pmr::vector<torch_abi::Tensor *> handles_{&pool_};
    std::pmr::vector<torch_abi::String *> string_handles_{&pool_};
    std::pmr::deque<DLTensor> tensors_{&pool_};
    std::pmr::vector<DLTensor *> inputs_{&pool_};
    std::pmr::vector<DLTensor *> outputs_{&pool_};
    std::pmr::vector<torch_abi::Tensor *> input_handles_{&pool_}; // of inputs_; null if the op writes it
    std::pmr::vector<uint32_t> list_sizes_{&pool_};
    std::pmr::vector<opdock_attribute> attributes_{&pool_};
    std::pmr::deque<std::pmr::vector<Value>> lists_{&pool_};
    std::pmr::deque<std::pmr::vector<opdock_text>> texts_{&pool_};
    std::pmr::vector<size_t> result_at_{&pool_}; // for each output that was made, its index in handles_
    DLDevice device_{kDLCPU, 0};
};

// Takes the value out of a present optional.
Value opened(Value value) {
    const std::unique_ptr<Value> pointer(as<Value *>(value));
    return *pointer;
}

// Whoever asks for an item owns it; an item that is not asked for has no owner.
class OwnedList {
  public:
    explicit OwnedList(Value value) : list_(as<torch_abi::List *>(value)) {}
    OwnedList(const OwnedList &) = delete;
    OwnedList &operator=(const OwnedList &) = delete;
    ~OwnedList() { api().list_delete(list_); }

    size_t size() const {
        size_t size = 0;
        check(api().list_size(list_, &size), "read a list");
        return size;
    }
    Value at(size_t i) const {
        Value value = 0;
        check(api().list_get(list_, i, &value), "read a list");
        return value;
    }

  private:
    torch_abi::List *list_;
};

void Kernel::Call::view(const Parameter &input, torch_abi::Tensor *tensor) {
    DLTensor &made = tensors_.emplace_back();
    int64_t ndim = 0;
    int32_t dtype = 0;
    int32_t type = 0;
    int32_t index = 0;
    const auto &torch = api();
    if (torch.tensor_data(tensor, &made.data) != 0 || torch.tensor_ndim(tensor, &ndim) != 0 ||
        torch.tensor_sizes(tensor, &made.shape) != 0 || torch.tensor_strides(tensor, &made.strides) != 0 ||
        torch.tensor_dtype(tensor, &dtype) != 0 || torch.tensor_device_type(tensor, &type) != 0 ||
        torch.tensor_device_index(tensor, &index) != 0) {
        refuse("'" + input.name + "' has no memory or no strides");
    }
    made.ndim = static_cast<int32_t>(ndim);
    const Dtype *known = find_dtype([&](const Dtype &one) { return one.torch == dtype; });
    if (known == nullptr) {
        refuse("'" + input.name + "' has a dtype that ops do not support, torch's number " + std::to_string(dtype) +
               " (complex numbers are 8 to 10)");
    }
    made.dtype = known->dtype;
    made.device = device_of(type, index);
    if (made.device.device_type != kDLCPU) {
        device_ = made.device;
    }
    inputs_.push_back(&made);
    input_handles_.push_back(input.mut ? nullptr : tensor);
}

void Kernel::Call::take(const Parameter &input, Value value) {
    if (input.optional) {
        if (value == 0) {
            if (input.list) {
                list_sizes_.push_back(0);
            } else {
                inputs_.push_back(nullptr);
                input_handles_.push_back(nullptr);
            }
            return;
        }
        value = opened(value);
    }
    if (!input.list) {
        handles_.push_back(as<torch_abi::Tensor *>(value));
        view(input, handles_.back());
        return;
    }
    const OwnedList list(value);
    const size_t size = list.size();
    const size_t first = handles_.size();
    for (size_t i = 0; i < size; ++i) { // take all of them before one may be refused
        handles_.push_back(as<torch_abi::Tensor *>(list.at(i)));
    }
    for (size_t i = 0; i < size; ++i) {
        view(input, handles_[first + i]);
    }
    list_sizes_.push_back(static_cast<uint32_t>(size));
}

opdock_text Kernel::Call::text_of(Value value) {
    auto *string = as<torch_abi::String *>(value);
    string_handles_.push_back(string);
    opdock_text text{};
    size_t length = 0;
    check(api().string_length(string, &length), "read a string");
    check(api().string_data(string, &text.text), "read a string");
    text.size = length;
    return text;
}

void Kernel::Call::take_list(const AttributeForm &attribute, Value value) {
    const OwnedList list(value);
    const size_t size = list.size();
    std::pmr::vector<Value> &values = lists_.emplace_back(size);
    for (size_t i = 0; i < size; ++i) {
        values[i] = list.at(i);
    }
    opdock_value &to = attributes_.back().value;
    to.count = static_cast<uint32_t>(size);
    if (attribute.type == "int[]") {
        to.type = OPDOCK_VALUE_INTS;
        to.as.ints = reinterpret_cast<const int64_t *>(values.data());
    } else if (attribute.type == "float[]") {
        to.type = OPDOCK_VALUE_FLOATS;
        to.as.floats = reinterpret_cast<const double *>(values.data());
    } else {
        std::pmr::vector<opdock_text> &texts = texts_.emplace_back();
        for (const Value one : values) {
            texts.push_back(text_of(one));
        }
        to.type = OPDOCK_VALUE_STRINGS;
        to.as.strings = texts.data();
    }
}

void Kernel::Call::take(const AttributeForm &attribute, Value value) {
    if (attribute.optional) {
        if (value == 0) {
            return;
        }
        value = opened(value);
    }
    opdock_value &to = attributes_.emplace_back(opdock_attribute{attribute.name.c_str(), {}}).value;
    if (attribute.type == "float") {
        to.type = OPDOCK_VALUE_FLOAT;
        to.as.f = as<double>(value);
    } else if (attribute.type == "int") {
        to.type = OPDOCK_VALUE_INT;
        to.as.i = as<int64_t>(value);
    } else if (attribute.type == "bool") {
        to.type = OPDOCK_VALUE_BOOL;
        to.as.i = as<bool>(value) ? 1 : 0;
    } else if (attribute.type == "dtype") {
        to.type = OPDOCK_VALUE_DTYPE;
        to.as.i = opdock_dtype_pack(dtype_of_torch(as<int32_t>(value)));
    } else if (attribute.type == "string") {
        const opdock_text text = text_of(value);
        to.type = OPDOCK_VALUE_STRING;
        to.count = static_cast<uint32_t>(text.size);
        to.as.s = text.text;
    } else {
        take_list(attribute, value);
    }
}

// Continues after a refused argument, so that nothing is left on the stack.
void Kernel::Call::take_all(const Value *stack) {
    std::exception_ptr refused;
    const auto take_one = [&](const auto &parameter) {
        try {
            take(parameter, *stack++);
        } catch (...) {
            refused = refused != nullptr ? refused : std::current_exception();
        }
    };
    std::for_each(kernel_.form_.inputs.begin(), kernel_.form_.inputs.end(), take_one);
    std::for_each(kernel_.form_.attributes.begin(), kernel_.form_.attributes.end(), take_one);
    if (refused != nullptr) {
        std::rethrow_exception(refused);
    }
}

// Computes torch's strides of a contiguous tensor. Returns the number of elements, unless a dim is 0.
int64_t pack(int32_t ndim, const int64_t *shape, std::array<int64_t, OPDOCK_MAX_RANK> &strides) {
    int64_t packed = 1;
    for (int32_t d = ndim; d-- > 0;) {
        strides[static_cast<size_t>(d)] = packed;
        packed *= shape[d] > 1 ? shape[d] : 1;
    }
    return packed;
}

DLTensor *Kernel::Call::made(const opdock_tensor_spec &spec, DLDevice device) {
    DLTensor &view = tensors_.emplace_back();
    std::array<int64_t, OPDOCK_MAX_RANK> strides{};
    const int64_t packed = pack(spec.ndim, spec.shape, strides);
    torch_abi::Tensor *tensor = nullptr;
    const auto &torch = api();
    if (torch.empty_strided(spec.ndim, spec.shape, strides.data(), torch_number_of(spec.dtype), type_of(device),
                            device.device_id, &tensor) != 0) {
        // Programs recognize these words, and may retry with less at once.
        refuse(std::string(device.device_type == kDLCPU ? "out of memory" : "CUDA out of memory") + ": output '" +
               spec.name + "' of " + std::to_string(packed) + " elements could not be allocated");
    }
    result_at_.push_back(handles_.size());
    handles_.push_back(tensor);
    check(torch.tensor_data(tensor, &view.data), "allocate an output");
    check(torch.tensor_sizes(tensor, &view.shape), "allocate an output");
    check(torch.tensor_strides(tensor, &view.strides), "allocate an output");
    view.ndim = spec.ndim;
    view.dtype = spec.dtype;
    view.device = device;
    return &view;
}

opdock_args Kernel::Call::args() {
    opdock_args args{};
    args.struct_size = OPDOCK_STRUCT_SIZE(opdock_args, list_sizes);
    args.n_inputs = static_cast<uint32_t>(inputs_.size());
    args.n_outputs = static_cast<uint32_t>(outputs_.size());
    args.n_attributes = static_cast<uint32_t>(attributes_.size());
    args.n_lists = static_cast<uint32_t>(list_sizes_.size());
    args.inputs = const_cast<const DLTensor **>(inputs_.data());
    args.outputs = const_cast<const DLTensor **>(outputs_.data());
    args.attributes = attributes_.data();
    args.list_sizes = list_sizes_.data();
    if (device_.device_type != kDLCPU && device_.device_type != kDLExtDev) {
        check(api().cuda_stream(device_.device_id, &args.stream), "return its current stream");
    }
    return args;
}

void Kernel::Call::make_outputs() {
    const Form &form = kernel_.form_;
    std::array<opdock_tensor_spec, 16> first;
    std::pmr::vector<opdock_tensor_spec> more(&pool_);
    opdock_tensor_spec *specs = first.data();
    uint32_t count = 0;
    const opdock_args call = args();
    detail::check(opdock_infer_outputs(kernel_.op_.c(), &call, specs, sizeof *specs, first.size(), &count));
    if (count > first.size()) {
        more.resize(count);
        specs = more.data();
        detail::check(opdock_infer_outputs(kernel_.op_.c(), &call, specs, sizeof *specs, count, &count));
    }
    size_t at = 0;
    for (uint32_t i = 0; i < form.outputs.size(); ++i) {
        const Parameter &output = form.outputs[i];
        const size_t before = outputs_.size();
        const bool wanted = kernel_.all_outputs_ || !output.optional;
        for (; at < count && specs[at].parameter == i; ++at) {
            if (wanted) {
                outputs_.push_back(made(specs[at], output.host ? cpu : device_));
            }
        }
        if (output.list) {
            list_sizes_.push_back(static_cast<uint32_t>(outputs_.size() - before));
        } else if (outputs_.size() == before) {
            outputs_.push_back(nullptr);
        }
    }
}

// Replaces inputs that are not contiguous and aligned by copies, on the current stream. False if there were none.
bool Kernel::Call::copy_views() {
    constexpr uintptr_t alignment = 16; // of the widest loads of kernels
    const auto &torch = api();
    bool copied = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (input_handles_[i] == nullptr) {
            continue;
        }
        DLTensor &view = *inputs_[i];
        std::array<int64_t, OPDOCK_MAX_RANK> strides{};
        if (view.ndim > OPDOCK_MAX_RANK) {
            continue; // the host refuses it
        }
        pack(view.ndim, view.shape, strides);
        bool is_packed = reinterpret_cast<uintptr_t>(view.data) % alignment == 0;
        for (int32_t d = 0; d < view.ndim; ++d) {
            is_packed = is_packed && (view.shape[d] <= 1 || view.strides[d] == strides[static_cast<size_t>(d)]);
        }
        if (is_packed) {
            continue;
        }
        torch_abi::Tensor *copy = nullptr;
        check(torch.empty_strided(view.ndim, view.shape, strides.data(), torch_number_of(view.dtype),
                                  type_of(view.device), view.device.device_id, &copy),
              "allocate a copy");
        handles_.push_back(copy);
        check(torch.copy(copy, input_handles_[i], 1), "copy an input");
        check(torch.tensor_data(copy, &view.data), "allocate a copy");
        check(torch.tensor_sizes(copy, &view.shape), "allocate a copy");
        check(torch.tensor_strides(copy, &view.strides), "allocate a copy");
        copied = true;
    }
    return copied;
}

// Passes views as they are, and copies them if no implementation accepts views.
void Kernel::Call::compute() {
    const uint32_t device = 1U << static_cast<uint32_t>(device_.device_type);
    if ((kernel_.takes_no_views_.load(std::memory_order_relaxed) & device) != 0) {
        copy_views();
    }
    const opdock_args call = args();
    const opdock_status status = opdock_call_op(kernel_.op_.c(), &call);
    const auto &inputs = kernel_.form_.inputs;
    const bool may_repeat = std::none_of(inputs.begin(), inputs.end(), [](const Parameter &one) { return one.mut; });
    if (status != OPDOCK_UNSUPPORTED && (status != OPDOCK_ALL_FAILED || !may_repeat)) {
        detail::check(status);
        return;
    }
    const std::string why = opdock_last_error();
    if (!copy_views()) {
        throw Error(status, why);
    }
    const opdock_args again = args();
    detail::check(opdock_call_op(kernel_.op_.c(), &again));
    kernel_.takes_no_views_.fetch_or(device, std::memory_order_relaxed);
}

void Kernel::Call::run(Value *stack) {
    take_all(stack);
    const Form &form = kernel_.form_;
    if (!form.outputs.empty()) {
        make_outputs();
    }
    compute();
    size_t at = 0; // index in result_at_
    size_t list = 0;
    for (const Parameter &input : form.inputs) {
        list += input.list ? 1 : 0;
    }
    size_t position = 0; // index in outputs_
    const auto next = [&] { return value_of(std::exchange(handles_[result_at_[at++]], nullptr)); };
    for (const Parameter &output : form.outputs) {
        const bool wanted = kernel_.all_outputs_ || !output.optional;
        if (output.list) {
            const uint32_t size = list_sizes_[list++];
            position += size;
            if (wanted) {
                torch_abi::List *values = nullptr;
                check(api().list_new(size, &values), "make a list");
                *stack++ = value_of(values);
                for (uint32_t i = 0; i < size; ++i) {
                    check(api().list_push(values, next()), "fill a list");
                }
            }
        } else if (outputs_[position++] != nullptr) {
            *stack++ = next();
        } else if (wanted) {
            refuse("output '" + output.name +
                   "' depends on an input that is absent; call the op without its optional outputs");
        }
    }
}

void Kernel::run(Value *stack) const {
    Call(*this).run(stack);
}

// torch's boxed kernels carry no data, so each function here is one kernel and knows it by its number.
constexpr size_t most_kernels = 2048;
std::array<std::unique_ptr<const Kernel>, most_kernels> kernels;
size_t n_kernels = 0;

template<size_t number>
void boxed(Value *stack, uint64_t /*n_arguments*/, uint64_t /*n_results*/) {
    kernels[number]->run(stack);
}

template<size_t... numbers>
constexpr auto table_of(std::index_sequence<numbers...> /*all*/) {
    return std::array<torch_abi::Kernel, sizeof...(numbers)>{boxed<numbers>...};
}

constexpr auto table = table_of(std::make_index_sequence<most_kernels>());

// Workspaces: byte tensors by the address that the host knows.
class Workspaces {
  public:
    // Returns null if torch has no memory.
    void *allocate(DLDevice device, void *stream, uint64_t bytes) {
        constexpr uint64_t alignment = 256; // torch guarantees this only on GPUs
        const int64_t size = static_cast<int64_t>(bytes + alignment - 1);
        const int64_t stride = 1;
        const auto &torch = api();
        torch_abi::Tensor *tensor = nullptr;
        void *begin = nullptr;
        // For memory of a stream other than the current one, make that stream current: torch reuses memory for the next
        // allocation on that stream.
        torch_abi::StreamGuard *guard = nullptr;
        if (type_of(device) == torch_cuda) {
            void *current = nullptr;
            if (torch.cuda_stream == nullptr || torch.cuda_stream(device.device_id, &current) != 0 ||
                (current != stream && torch.cuda_stream_enter(stream, device.device_id, &guard) != 0)) {
                return nullptr;
            }
        }
        const bool failed = torch.empty_strided(1, &size, &stride, torch_number_of({kDLUInt, 8, 1}), type_of(device),
                                                device.device_id, &tensor) != 0;
        if (guard != nullptr) {
            torch.cuda_stream_leave(guard);
        }
        if (failed) {
            return nullptr;
        }
        if (torch.tensor_data(tensor, &begin) != 0) {
            torch.tensor_delete(tensor);
            return nullptr;
        }
        begin = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(begin) + alignment - 1) / alignment * alignment);
        const std::lock_guard lock(mutex_);
        given_[begin] = tensor;
        return begin;
    }

    void free(void *begin) {
        torch_abi::Tensor *tensor = nullptr;
        {
            const std::lock_guard lock(mutex_);
            const auto found = given_.find(begin);
            tensor = found->second;
            given_.erase(found);
        }
        api().tensor_delete(tensor);
    }

  private:
    std::mutex mutex_;
    std::unordered_map<void *, torch_abi::Tensor *> given_;
};

} // namespace

void use_torchs_memory(Options &options) {
    api(); // throws if it is missing, with the reason
    // Never destroyed: a host that closes last returns its memory here.
    static Workspaces &workspaces = *new Workspaces;
    options.workspace_user_data = &workspaces;
    options.allocate_workspace = [](void *user_data, DLDevice device, void *stream, uint64_t bytes) {
        return static_cast<Workspaces *>(user_data)->allocate(device, stream, bytes);
    };
    options.free_workspace = [](void *user_data, DLDevice /*device*/, void * /*stream*/, void *memory) {
        static_cast<Workspaces *>(user_data)->free(memory);
    };
}

void implement_torch_op(const std::shared_ptr<Host> &host, const Op &op, const Form &form, const std::string &name,
                        bool all_outputs) {
    if (n_kernels == most_kernels) {
        throw std::runtime_error("torch can register at most " + std::to_string(most_kernels) + " kernels of opdock");
    }
    // Never freed: destroying them would unregister the kernels.
    static const std::array libraries = [] {
        std::array<torch_abi::Library *, 3> made{};
        const std::array keys = {"CPU", "CUDA", "PrivateUse1"};
        for (size_t i = 0; i < keys.size(); ++i) {
            check(api().library_implementing("opdock", keys[i], "opdock", 0, &made[i]), "make a library");
        }
        return made;
    }();
    kernels[n_kernels] = std::make_unique<const Kernel>(host, op, form, all_outputs);
    const torch_abi::Kernel function = table[n_kernels++];
    for (torch_abi::Library *library : libraries) {
        check(api().library_implement(library, name.c_str(), function, torch_abi::version),
              ("register a kernel of " + name).c_str());
    }
}

} // namespace opdock::python
