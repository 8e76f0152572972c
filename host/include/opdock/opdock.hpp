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
// Every failure throws opdock::Error; its message says what failed, what was expected, what was found and what to do.
// The try_ functions return the status instead. Everything may be used on any thread, concurrently, except that a
// ScopedPolicy belongs to its thread. A Host must outlive everything that it returned.
#ifndef OPDOCK_OPDOCK_HPP
#define OPDOCK_OPDOCK_HPP

#if __cplusplus < 202002L
#error "opdock/opdock.hpp needs C++20 (-std=c++20); opdock/opdock.h is for C and for older C++"
#endif

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opdock/arguments.hpp"
#include "opdock/opdock.h"

namespace opdock {

struct TensorSpec {
    std::string name;
    DLDataType dtype;
    std::vector<int64_t> shape;
    bool optional;
    uint32_t parameter; // index of the parameter among the signature's outputs
};

// A set of policy items, spelled like the environment variables: {"prefer", "vendor"}, {"per_op", "gelu=reference"}.
class Policy {
  public:
    explicit Policy(opdock_policy *owned) : policy_(owned, opdock_policy_release) {}

    const opdock_policy *c() const noexcept { return policy_.get(); }

  private:
    std::shared_ptr<opdock_policy> policy_;
};

// A call with a fixed implementation, config and plan. Later changes of policy and health do not affect it.
class Prepared {
  public:
    explicit Prepared(opdock_prepared *owned) : prepared_(owned, opdock_prepared_destroy) {}

    // Takes n_data() pointers, one for each tensor given to prepare: inputs, then outputs, null for absent tensors.
    // `workspace` has workspace_size() bytes, aligned to 256; without it the host allocates what is needed. Returns the
    // kernel's status and leaves the kernel's message in opdock_last_error(). Never falls back. Any number of threads
    // may run it at once.
    [[nodiscard]] opdock_status run(std::span<void *const> data, void *stream = nullptr,
                                    void *workspace = nullptr) const {
        const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                               0,
                               static_cast<uint32_t>(data.size()),
                               0,
                               data.data(),
                               stream,
                               workspace,
                               workspace != nullptr ? prepared_->workspace_size : 0};
        const opdock_status status = opdock_prepared_run(prepared_.get(), &call);
        return status == OPDOCK_OK ? OPDOCK_OK : opdock_prepared_failed(prepared_.get(), status);
    }
    [[nodiscard]] opdock_status run(std::initializer_list<void *> data, void *stream = nullptr,
                                    void *workspace = nullptr) const {
        return run(std::span<void *const>(data.begin(), data.size()), stream, workspace);
    }
    // Takes a call that the program keeps and changes in place, and runs nothing but the kernel. After a status other
    // than OPDOCK_OK, pass the status to opdock_prepared_failed before reading opdock_last_error().
    [[nodiscard]] opdock_status run(const opdock_call &call) const {
        return opdock_prepared_run(prepared_.get(), &call);
    }

    uint32_t n_data() const noexcept { return prepared_->n_data; }
    // True if preparing again might choose differently.
    bool stale() const noexcept { return opdock_prepared_stale(prepared_.get()) != 0; }
    std::string impl() const { return opdock_prepared_impl(prepared_.get()); }
    uint64_t workspace_size() const noexcept { return prepared_->workspace_size; }
    // Required alignment of each data pointer in bytes; 0: the element size of its tensor.
    uint64_t alignment() const noexcept { return prepared_->alignment; }
    const opdock_problem &problem() const noexcept { return *prepared_->problem; }
    const opdock_prepared *c() const noexcept { return prepared_.get(); }

  private:
    std::unique_ptr<opdock_prepared, void (*)(opdock_prepared *)> prepared_;
};

// An op of a host. Acts as a pointer: cheap to copy, valid as long as the host.
class Op {
  public:
    explicit Op(opdock_op *op) noexcept : op_(op) {}

    void operator()(const Args &args) const { detail::check(opdock_call_op(op_, &args.c())); }
    void operator()(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                    std::initializer_list<Attribute> attributes = {}, void *stream = nullptr) const {
        (*this)(Args(inputs, outputs, attributes, stream));
    }

    // Returns the status instead of throwing; opdock_last_error() has the message.
    opdock_status try_call(const Args &args) const { return opdock_call_op(op_, &args.c()); }
    opdock_status try_call(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                           std::initializer_list<Attribute> attributes = {}, void *stream = nullptr) const {
        return try_call(Args(inputs, outputs, attributes, stream));
    }

    // Describes the outputs that a call would have.
    std::vector<TensorSpec> infer_outputs(const Args &args) const {
        std::vector<opdock_tensor_spec> specs(16);
        uint32_t count = 0;
        detail::check(opdock_infer_outputs(op_, &args.c(), specs.data(), sizeof specs[0], 16, &count));
        if (count > specs.size()) {
            specs.resize(count);
            detail::check(opdock_infer_outputs(op_, &args.c(), specs.data(), sizeof specs[0], count, &count));
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

    // Data pointers may be null. If they are not, the chosen implementation accepts data with their alignment.
    Prepared prepare(const Args &args) const { return prepare(args, nullptr); }
    Prepared prepare(const Args &args, const Policy &policy) const { return prepare(args, policy.c()); }
    Prepared prepare(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                     std::initializer_list<Attribute> attributes = {}) const {
        return prepare(Args(inputs, outputs, attributes), nullptr);
    }

    // Returns the decision for one call and the config of each implementation, as JSON; see opdock_explain_call.
    std::string explain(const Args &args) const {
        char *json = nullptr;
        detail::check(opdock_explain_call(op_, &args.c(), nullptr, &json));
        return detail::take(json);
    }
    std::string explain(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                        std::initializer_list<Attribute> attributes = {}) const {
        return explain(Args(inputs, outputs, attributes));
    }
    // Finds and keeps the fastest config. Returns JSON; see opdock_tune.
    std::string tune(const Args &args, const opdock_tune_options *options = nullptr) const {
        char *json = nullptr;
        detail::check(opdock_tune(op_, &args.c(), options, &json));
        return detail::take(json);
    }
    std::string tune(std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
                     std::initializer_list<Attribute> attributes = {},
                     const opdock_tune_options *options = nullptr) const {
        return tune(Args(inputs, outputs, attributes), options);
    }

    // See opdock_signature_json.
    std::string signature_json() const {
        char *json = nullptr;
        detail::check(opdock_signature_json(op_, &json));
        return detail::take(json);
    }

    opdock_op *c() const noexcept { return op_; }

  private:
    Prepared prepare(const Args &args, const opdock_policy *policy) const {
        opdock_prepared *prepared = nullptr;
        detail::check(opdock_prepare(op_, &args.c(), policy, &prepared));
        return Prepared(prepared);
    }

    opdock_op *op_;
};

struct Options {
    std::vector<std::string> modules;                   // files or directories, absolute, searched first
    std::string prefix = "PLUGIN_";                     // prefix of environment variables
    std::function<void(int32_t, std::string_view)> log; // level and line, on any thread; empty: stderr
    bool rescan = false;                                // try every plugin again, regardless of the scan cache
    bool retry = false;                                 // retry plugins in `modules` that the scan cache would skip
    // Workspace allocator, as in opdock_options: both or none. `workspace_user_data` must outlive the host.
    void *(*allocate_workspace)(void *user_data, DLDevice device, void *stream, uint64_t bytes) = nullptr;
    void (*free_workspace)(void *user_data, DLDevice device, void *stream, void *memory) = nullptr;
    void *workspace_user_data = nullptr;
    // Extensions for plugins, as in opdock_options. `extension_user_data` must outlive the host.
    const void *(*get_extension)(void *user_data, const char *name) = nullptr;
    void *extension_user_data = nullptr;
};

class Host {
  public:
    explicit Host(Options options = {}) : log_(std::make_unique<decltype(options.log)>(std::move(options.log))) {
        std::vector<const char *> modules;
        for (const std::string &module : options.modules) {
            modules.push_back(module.c_str());
        }
        opdock_options c = {};
        c.struct_size = OPDOCK_STRUCT_SIZE(opdock_options, extension_user_data);
        c.flags = (options.rescan ? OPDOCK_OPEN_RESCAN : 0) | (options.retry ? OPDOCK_OPEN_RETRY : 0);
        c.n_modules = static_cast<uint32_t>(modules.size());
        c.prefix = options.prefix.c_str();
        c.modules = modules.data();
        c.allocate_workspace = options.allocate_workspace;
        c.free_workspace = options.free_workspace;
        c.workspace_user_data = options.workspace_user_data;
        c.get_extension = options.get_extension;
        c.extension_user_data = options.extension_user_data;
        if (*log_) {
            c.log_user_data = log_.get();
            c.log = [](void *user_data, int32_t level, const char *line) {
                (*static_cast<decltype(options.log) *>(user_data))(level, line);
            };
        }
        opdock_host *host = nullptr;
        detail::check(opdock_open(&c, &host));
        host_.reset(host);
    }

    Op op(const char *name) const {
        opdock_op *op = nullptr;
        detail::check(opdock_find_op(host_.get(), name, &op));
        return Op(op);
    }
    Op op(const std::string &name) const { return op(name.c_str()); }

    // Looks up the op on each call.
    void call(const char *name, const Args &args) const {
        detail::check(opdock_call_by_name(host_.get(), name, &args.c()));
    }
    void call(const char *name, std::initializer_list<TensorArg> inputs, std::initializer_list<TensorArg> outputs,
              std::initializer_list<Attribute> attributes = {}, void *stream = nullptr) const {
        call(name, Args(inputs, outputs, attributes, stream));
    }

    void load(const std::string &path) { detail::check(opdock_load(host_.get(), path.c_str())); }
    // Registers the program's own implementations as a plugin would. The entry finds `user_data` in its registry.
    void register_module(const std::string &id, const std::string &vendor, opdock_entry entry,
                         void *user_data = nullptr) {
        detail::check(opdock_register_module(host_.get(), id.c_str(), vendor.c_str(), entry, user_data));
    }
    // Registers a module that can be unregistered; see opdock_register_temporary_module.
    void register_temporary_module(const std::string &id, const std::string &vendor, opdock_entry entry,
                                   void *user_data = nullptr) {
        detail::check(opdock_register_temporary_module(host_.get(), id.c_str(), vendor.c_str(), entry, user_data));
    }
    void unregister_module(const std::string &id) { detail::check(opdock_unregister_module(host_.get(), id.c_str())); }

    Policy policy(std::initializer_list<std::pair<std::string, std::string>> settings) const {
        std::vector<opdock_setting> c;
        for (const auto &[name, value] : settings) {
            c.push_back({name.c_str(), value.c_str()});
        }
        opdock_policy *policy = nullptr;
        detail::check(opdock_policy_create(host_.get(), c.data(), static_cast<uint32_t>(c.size()), &policy));
        return Policy(policy);
    }
    // Sets the program's policy: above the environment, below scopes.
    void set_policy(const Policy &policy) { detail::check(opdock_policy_set(host_.get(), policy.c())); }
    void clear_policy() { detail::check(opdock_policy_set(host_.get(), nullptr)); }
    // Rereads environment and files. If they are invalid, keeps the old policy and throws.
    void reload_policy() { detail::check(opdock_policy_reload(host_.get())); }
    // Returns the policy in force on this thread, for use in a ScopedPolicy on another thread.
    Policy effective_policy() const {
        opdock_policy *policy = nullptr;
        detail::check(opdock_policy_effective(host_.get(), &policy));
        return Policy(policy);
    }

    // Fixes the implementation of each op and returns the manifest; see opdock_freeze. `expected`: the manifest of
    // another host, or null.
    std::string freeze(const char *expected = nullptr) const {
        char *manifest = nullptr;
        detail::check(opdock_freeze(host_.get(), expected, &manifest));
        return detail::take(manifest);
    }
    // Returns JSON of schema opdock.plugin-ls/1; see opdock_describe.
    std::string describe() const {
        char *json = nullptr;
        detail::check(opdock_describe(host_.get(), &json));
        return detail::take(json);
    }
    // Returns the decision for one op as JSON; see opdock_explain. Empty `dtypes`: implementations of any dtypes.
    std::string explain(const std::string &op, const std::string &device = "cpu:0",
                        const std::string &dtypes = {}) const {
        char *json = nullptr;
        detail::check(opdock_explain(host_.get(), op.c_str(), device.c_str(), dtypes.empty() ? nullptr : dtypes.c_str(),
                                     nullptr, &json));
        return detail::take(json);
    }
    // Throws if results of Op::tune could not be stored; see opdock_tune_check.
    void check_tune_database() const { detail::check(opdock_tune_check(host_.get())); }
    // Returns the content of the tuning database as a tune file; see opdock_tune_export. Empty: everything.
    std::string export_tuning(const std::string &op = {}, const std::string &impl_id = {}) const {
        char *yaml = nullptr;
        detail::check(opdock_tune_export(host_.get(), op.empty() ? nullptr : op.c_str(),
                                         impl_id.empty() ? nullptr : impl_id.c_str(), &yaml));
        return detail::take(yaml);
    }
    // Stores the pinned configs of a tune file in the database. Returns their number. `name` is used in messages.
    uint64_t import_tuning(const std::string &yaml, const std::string &name) const {
        uint64_t count = 0;
        detail::check(opdock_tune_import(host_.get(), yaml.c_str(), name.c_str(), &count));
        return count;
    }

    // Parses "cuda:1" or "cuda".
    DLDevice device(const std::string &text) const {
        DLDevice device{};
        detail::check(opdock_find_device(host_.get(), text.c_str(), &device));
        return device;
    }
    // Returns all devices as JSON; see opdock_devices.
    std::string devices() const {
        char *json = nullptr;
        detail::check(opdock_devices(host_.get(), &json));
        return detail::take(json);
    }

    // Returns the counters of each implementation (served, declined, failed) as JSON; see opdock_counters.
    std::string counters() const {
        char *json = nullptr;
        detail::check(opdock_counters(host_.get(), &json));
        return detail::take(json);
    }
    // Returns the number of calls that an implementation served, including runs of prepared calls.
    uint64_t served(const std::string &op, const std::string &impl_id) const {
        uint64_t count = 0;
        detail::check(opdock_served_count(host_.get(), op.c_str(), impl_id.c_str(), &count));
        return count;
    }
    // Restores implementations that were removed from their chains after failures.
    void reset_health() { detail::check(opdock_reset_health(host_.get(), nullptr, nullptr)); }
    void reset_health(const std::string &op, const std::string &impl_id) {
        detail::check(opdock_reset_health(host_.get(), op.c_str(), impl_id.c_str()));
    }
    void refresh_availability() { detail::check(opdock_refresh_availability(host_.get())); }

    // Returns the extension table that an implementation offers under this name, or null.
    template<class Table>
    const Table *find_extension(const std::string &op, const std::string &impl_id, const char *name) const {
        const void *table = nullptr;
        detail::check(opdock_find_extension(host_.get(), op.c_str(), impl_id.c_str(), name, &table));
        return static_cast<const Table *>(table);
    }

    opdock_host *c() const noexcept { return host_.get(); }

  private:
    std::unique_ptr<std::function<void(int32_t, std::string_view)>> log_; // outlives the host, which writes to it
    std::unique_ptr<opdock_host, void (*)(opdock_host *)> host_{nullptr, opdock_close};
};

// See opdock_parse_signature.
inline std::string parse_signature(const std::string &text) {
    char *json = nullptr;
    detail::check(opdock_parse_signature(text.c_str(), &json));
    return detail::take(json);
}

// While it exists, the policy's items override all others on this thread except `enforce:` items.
class ScopedPolicy {
  public:
    ScopedPolicy(const Host &host, const Policy &policy) : host_(host.c()) {
        detail::check(opdock_policy_push(host_, policy.c()));
    }
    ScopedPolicy(const ScopedPolicy &) = delete;
    ScopedPolicy &operator=(const ScopedPolicy &) = delete;
    ~ScopedPolicy() { opdock_policy_pop(host_); }

  private:
    opdock_host *host_;
};

} // namespace opdock

#endif
