// libopdock for embedding programs, in C++20: opdock/opdock.h with types, ownership and exceptions. Header-only.
//
//     opdock::Host host;                                        // environment, files and plugins are read here
//     opdock::Op rmsnorm = host.op("rmsnorm_fwd");              // found once, kept
//     opdock::Tensor x(data, opdock::f32, {64, 1024}), ...;
//     rmsnorm({x, weight}, {y, nullptr}, {{"eps", 1e-6}});      // validated; falls back as the policy says
//
//     opdock::Prepared call = rmsnorm.prepare({x, weight}, {y, nullptr});
//     call.run({x_data, weight_data, y_data, nullptr}, stream); // as cheap as an indirect call
//
// Everything that fails throws opdock::Error with a message that says what failed, what was expected, what came and
// what to do; the try_ functions return the status instead. All of it may be used on any thread, concurrently, except
// that a ScopedPolicy belongs to its thread and a Host must outlive what it gave out.
#ifndef OPDOCK_OPDOCK_HPP
#define OPDOCK_OPDOCK_HPP

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
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

// A string that the C API handed out.
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

// A tensor's description; the memory belongs to someone else. Row-major contiguous unless strides (in elements) are
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

// A tensor as an argument: a Tensor, any DLTensor, or nullptr for an optional one that is absent. Borrows.
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
// So that a list of arguments is the array that the C API takes.
static_assert(sizeof(TensorArg) == sizeof(const DLTensor *));

// {"eps", 1e-6}; or 1e-6 alone, for the attribute at that position in the signature. Borrows strings and lists.
class Attribute {
  public:
    template<class T>
    Attribute(const char *name, const T &value) noexcept : Attribute(value) {
        attribute_.name = name;
    }
    Attribute(double value) noexcept : Attribute(OPDOCK_VALUE_FLOAT) { attribute_.value.as.f = value; }
    Attribute(int64_t value) noexcept : Attribute(OPDOCK_VALUE_INT) { attribute_.value.as.i = value; }
    Attribute(int value) noexcept : Attribute(static_cast<int64_t>(value)) {}
    Attribute(bool value) noexcept : Attribute(OPDOCK_VALUE_BOOL) { attribute_.value.as.i = value ? 1 : 0; }
    Attribute(const char *text) noexcept : Attribute(OPDOCK_VALUE_STRING, std::string_view(text).size()) {
        attribute_.value.as.s = text;
    }
    Attribute(const std::string &text) noexcept : Attribute(text.c_str()) {}
    Attribute(DLDataType dtype) noexcept : Attribute(OPDOCK_VALUE_DTYPE) {
        attribute_.value.as.i = opdock_dtype_pack(dtype);
    }
    Attribute(std::span<const int64_t> list) noexcept : Attribute(OPDOCK_VALUE_INTS, list.size()) {
        attribute_.value.as.ints = list.data();
    }
    Attribute(const std::vector<int64_t> &list) noexcept : Attribute(std::span<const int64_t>(list)) {}

    const opdock_attribute &c() const noexcept { return attribute_; }

  private:
    explicit Attribute(uint32_t type, size_t count = 0) noexcept
        : attribute_{nullptr, {type, static_cast<uint32_t>(count), {}}} {}

    opdock_attribute attribute_;
};
static_assert(sizeof(Attribute) == sizeof(opdock_attribute));

using TensorArgs = std::span<const TensorArg>;
using Attributes = std::span<const Attribute>;

// The arguments of one call. Op's functions make one from what they are given; lists of tensors and other rare things
// need it spelled out. Borrows everything.
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
    // For an op without tensors.
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

    opdock_args args_; // what follows `stream` is set when it is used
};

struct TensorSpec {
    std::string name;
    DLDataType dtype;
    std::vector<int64_t> shape;
    bool optional;
    uint32_t parameter; // which of the signature's outputs
};

// A set of policy items, as values of the environment variables: {"prefer", "vendor"}, {"per_op", "gelu=reference"}.
class Policy {
  public:
    explicit Policy(opdock_policy *owned) : policy_(owned, opdock_policy_release) {}

    const opdock_policy *c() const noexcept { return policy_.get(); }

  private:
    std::shared_ptr<opdock_policy> policy_;
};

// A call whose implementation, config and plan are fixed. Untouched by later changes of policy and health.
class Prepared {
  public:
    explicit Prepared(opdock_prepared *owned) : prepared_(owned, opdock_prepared_destroy) {}

    // One pointer for each tensor of the problem, inputs and then outputs, null for what was absent; `workspace` has
    // workspace_size() bytes. Returns the kernel's status; never falls back. Any number of threads at once.
    opdock_status run(std::span<void *const> data, void *stream = nullptr, void *workspace = nullptr) const noexcept {
        const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                               0,
                               data.data(),
                               stream,
                               workspace,
                               prepared_->workspace_size};
        return opdock_prepared_run(prepared_.get(), &call);
    }
    opdock_status run(std::initializer_list<void *> data, void *stream = nullptr,
                      void *workspace = nullptr) const noexcept {
        return run(std::span<void *const>(data.begin(), data.size()), stream, workspace);
    }
    // With a call that the program keeps and changes in place.
    opdock_status run(const opdock_call &call) const noexcept { return opdock_prepared_run(prepared_.get(), &call); }

    // Whether preparing again might choose differently.
    bool stale() const noexcept { return opdock_prepared_stale(prepared_.get()) != 0; }
    std::string impl() const { return opdock_prepared_impl(prepared_.get()); }
    uint64_t workspace_size() const noexcept { return prepared_->workspace_size; }
    const opdock_problem &problem() const noexcept { return *prepared_->problem; }
    const opdock_prepared *c() const noexcept { return prepared_.get(); }

  private:
    std::unique_ptr<opdock_prepared, void (*)(opdock_prepared *)> prepared_;
};

// An op of a host. A pointer: cheap to copy, valid as long as the host.
class Op {
  public:
    explicit Op(opdock_handle *handle) noexcept : handle_(handle) {}

    void operator()(const Args &args) const { detail::check(opdock_call_handle(handle_, &args.c())); }
    void operator()(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                    std::initializer_list<Attribute> attributes = {}, void *stream = nullptr) const {
        (*this)(Args(inputs, outputs, attributes, stream));
    }

    // The status instead of an exception; opdock_last_error() has the message.
    opdock_status try_call(const Args &args) const noexcept { return opdock_call_handle(handle_, &args.c()); }
    opdock_status try_call(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                           std::initializer_list<Attribute> attributes = {}, void *stream = nullptr) const {
        return try_call(Args(inputs, outputs, attributes, stream));
    }

    // What the outputs of a call would look like.
    std::vector<TensorSpec> infer_outputs(const Args &args) const {
        std::vector<opdock_tensor_spec> specs(16);
        uint32_t count = 0;
        detail::check(opdock_infer_outputs(handle_, &args.c(), specs.data(), 16, &count));
        if (count > specs.size()) {
            specs.resize(count);
            detail::check(opdock_infer_outputs(handle_, &args.c(), specs.data(), count, &count));
        }
        std::vector<TensorSpec> result;
        for (uint32_t i = 0; i < count; ++i) {
            const opdock_tensor_spec &spec = specs[i];
            result.push_back(
                {spec.name, spec.dtype, {spec.shape, spec.shape + spec.ndim}, spec.optional != 0, spec.parameter});
        }
        return result;
    }
    std::vector<TensorSpec> infer_outputs(std::initializer_list<TensorArg> inputs,
                                          std::initializer_list<Attribute> attributes = {}) const {
        return infer_outputs(Args(inputs, {}, attributes));
    }

    // Data pointers may be null; where they are not, later pointers must be aligned as well as they are.
    Prepared prepare(const Args &args) const { return prepare(args, nullptr); }
    Prepared prepare(const Args &args, const Policy &policy) const { return prepare(args, policy.c()); }
    Prepared prepare(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                     std::initializer_list<Attribute> attributes = {}) const {
        return prepare(Args(inputs, outputs, attributes), nullptr);
    }

    // See opdock_signature_json.
    std::string signature_json() const {
        char *json = nullptr;
        detail::check(opdock_signature_json(handle_, &json));
        return detail::take(json);
    }

    opdock_handle *c() const noexcept { return handle_; }

  private:
    Prepared prepare(const Args &args, const opdock_policy *policy) const {
        opdock_prepared *prepared = nullptr;
        detail::check(opdock_prepare(handle_, &args.c(), policy, &prepared));
        return Prepared(prepared);
    }

    opdock_handle *handle_;
};

struct Options {
    std::vector<std::string> modules;                   // files or directories, absolute, searched first
    std::string prefix = "PLUGIN_";                     // of environment variables
    std::function<void(int32_t, std::string_view)> log; // level and line, on any thread; empty: stderr
};

class Host {
  public:
    explicit Host(Options options = {}) : log_(std::make_unique<decltype(options.log)>(std::move(options.log))) {
        std::vector<const char *> modules;
        for (const std::string &module : options.modules) {
            modules.push_back(module.c_str());
        }
        opdock_options c = {};
        c.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, workspace_user_data);
        c.n_modules = static_cast<uint32_t>(modules.size());
        c.prefix = options.prefix.c_str();
        c.modules = modules.data();
        if (*log_) {
            c.log_user_data = log_.get();
            c.log = [](void *user_data, int32_t level, const char *line) {
                (*static_cast<decltype(options.log) *>(user_data))(level, line);
            };
        }
        opdock_runtime *runtime = nullptr;
        detail::check(opdock_open(&c, &runtime));
        runtime_.reset(runtime);
    }

    Op op(const char *name) const {
        opdock_handle *handle = nullptr;
        detail::check(opdock_find_op(runtime_.get(), name, &handle));
        return Op(handle);
    }
    Op op(const std::string &name) const { return op(name.c_str()); }

    // Looks the op up at each call.
    void call(const char *name, const Args &args) const {
        detail::check(opdock_call_by_name(runtime_.get(), name, &args.c()));
    }
    void call(const char *name, std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
              std::initializer_list<Attribute> attributes = {}, void *stream = nullptr) const {
        call(name, Args(inputs, outputs, attributes, stream));
    }

    void load(const std::string &path) { detail::check(opdock_load(runtime_.get(), path.c_str())); }
    // Implementations of the program itself, registered as a plugin would.
    void register_module(const std::string &id, const std::string &vendor, opdock_entry entry) {
        detail::check(opdock_register_module(runtime_.get(), id.c_str(), vendor.c_str(), entry));
    }

    Policy policy(std::initializer_list<std::pair<std::string, std::string>> settings) const {
        std::vector<opdock_setting> c;
        for (const auto &[name, value] : settings) {
            c.push_back({name.c_str(), value.c_str()});
        }
        opdock_policy *policy = nullptr;
        detail::check(opdock_policy_create(runtime_.get(), c.data(), static_cast<uint32_t>(c.size()), &policy));
        return Policy(policy);
    }
    // The policy of the program: above the environment, below scopes.
    void set_policy(const Policy &policy) { detail::check(opdock_policy_set(runtime_.get(), policy.c())); }
    void clear_policy() { detail::check(opdock_policy_set(runtime_.get(), nullptr)); }
    // Reads environment and files again; when they are wrong the old policy stays and this throws.
    void reload_policy() { detail::check(opdock_policy_reload(runtime_.get())); }
    // Everything in force on this thread, to be scoped on another.
    Policy effective_policy() const {
        opdock_policy *policy = nullptr;
        detail::check(opdock_policy_effective(runtime_.get(), &policy));
        return Policy(policy);
    }

    // JSON of schema opdock.plugin-ls/1; see opdock_describe.
    std::string describe() const {
        char *json = nullptr;
        detail::check(opdock_describe(runtime_.get(), &json));
        return detail::take(json);
    }
    // The decision for one op, as JSON; see opdock_explain. Empty dtypes: whatever they are.
    std::string explain(const std::string &op, const std::string &device = "cpu:0",
                        const std::string &dtypes = {}) const {
        char *json = nullptr;
        detail::check(opdock_explain(runtime_.get(), op.c_str(), device.c_str(),
                                     dtypes.empty() ? nullptr : dtypes.c_str(), nullptr, &json));
        return detail::take(json);
    }
    // How many calls an implementation served, prepared ones not counted.
    uint64_t served(const std::string &op, const std::string &impl_id) const {
        uint64_t count = 0;
        detail::check(opdock_served_count(runtime_.get(), op.c_str(), impl_id.c_str(), &count));
        return count;
    }
    // Brings back implementations that left their chains after failures.
    void reset_health() { detail::check(opdock_reset_health(runtime_.get(), nullptr, nullptr)); }
    void reset_health(const std::string &op, const std::string &impl_id) {
        detail::check(opdock_reset_health(runtime_.get(), op.c_str(), impl_id.c_str()));
    }
    void refresh_availability() { detail::check(opdock_refresh_availability(runtime_.get())); }

    opdock_runtime *c() const noexcept { return runtime_.get(); }

  private:
    std::unique_ptr<std::function<void(int32_t, std::string_view)>> log_; // outlives the runtime, which writes to it
    std::unique_ptr<opdock_runtime, void (*)(opdock_runtime *)> runtime_{nullptr, opdock_close};
};

// Between construction and destruction the policy's items are above all others on this thread, but for `enforce:`.
class ScopedPolicy {
  public:
    ScopedPolicy(const Host &host, const Policy &policy) : runtime_(host.c()) {
        detail::check(opdock_policy_push(runtime_, policy.c()));
    }
    ScopedPolicy(const ScopedPolicy &) = delete;
    ScopedPolicy &operator=(const ScopedPolicy &) = delete;
    ~ScopedPolicy() { opdock_policy_pop(runtime_); }

  private:
    opdock_runtime *runtime_;
};

} // namespace opdock

#endif
