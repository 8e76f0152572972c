// SPDX-License-Identifier: Apache-2.0
// Registration.
//
//     OPDOCK_NOTE("acme", "1.0.0", "acme", "cpu", "")
//
//     OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *c_registry) {
//         return opdock::register_plugin(c_registry, [](opdock::Registry &registry) {
//             registry.implement(opdock::ops::rmsnorm_fwd, opdock::Impl("vendor.acme")
//                                                              .kind(OPDOCK_KIND_VENDOR)
//                                                              .dtypes("f32,f32|bf16,f32")
//                                                              .kernel(opdock::kernel<&rmsnorm_fwd>));
//         });
//     }
//
// Results of single registrations can be ignored: the host keeps every error and finally registers all or nothing.
#ifndef OPDOCK_CPP_REGISTRY_HPP
#define OPDOCK_CPP_REGISTRY_HPP

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "opdock/abi/registry.h"
#include "opdock/abi/version.h"
#include "opdock/cpp/firewall.hpp"
#include "opdock/cpp/op.hpp"

namespace opdock {

// An implementation under construction. Copies are independent, so that several can share a common start. Unset fields
// have the meaning of null or 0 in opdock/abi/impl.h; the device is "cpu", the kind is OPDOCK_KIND_VENDOR.
class Impl {
  public:
    explicit Impl(std::string impl_id) : impl_id_(std::move(impl_id)) {
        impl_.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, get_extension);
        impl_.kind = OPDOCK_KIND_VENDOR;
    }

    // OPDOCK_KIND_
    Impl &kind(std::uint32_t kind) { return set(impl_.kind, kind); }
    Impl &vendor(std::string vendor) { return set(vendor_, std::move(vendor)); }
    Impl &device(std::string type) { return set(device_, std::move(type)); }
    Impl &dtypes(std::string tuples) { return set(dtypes_, std::move(tuples)); }
    Impl &architectures(std::string list) { return set(architectures_, std::move(list)); }
    Impl &priority(std::int32_t priority) { return set(impl_.priority, priority); }
    Impl &alignment(std::uint32_t bytes) { return set(impl_.alignment, bytes); }
    Impl &tune_version(std::uint32_t version) { return set(impl_.tune_version, version); }
    Impl &user_data(void *data) { return set(impl_.user_data, data); }
    Impl &batch_invariant() { return set(impl_.flags, impl_.flags | OPDOCK_IMPL_BATCH_INVARIANT); }
    Impl &deterministic() { return set(impl_.flags, impl_.flags | OPDOCK_IMPL_DETERMINISTIC); }
    Impl &capture_safe() { return set(impl_.flags, impl_.flags | OPDOCK_IMPL_CAPTURE_SAFE); }
    Impl &needs_contiguous() { return set(impl_.required_flags, impl_.required_flags | OPDOCK_IMPL_NEEDS_CONTIGUOUS); }

    // Knobs are numbered in the order of these calls; problem.knob(0) is the value of the first one.
    Impl &knob(std::string name, std::int64_t minimum, std::int64_t maximum, std::int64_t default_value,
               std::string doc = {}) {
        knobs_.push_back({OPDOCK_KNOB_INT, std::move(name), minimum, maximum, default_value, std::move(doc), {}});
        return *this;
    }
    Impl &bool_knob(std::string name, bool default_value, std::string doc = {}) {
        knobs_.push_back({OPDOCK_KNOB_BOOL, std::move(name), 0, 1, default_value ? 1 : 0, std::move(doc), {}});
        return *this;
    }
    // `choices`: "none,cpasync,tma"; the value is the index of the choice, from 0.
    Impl &choice_knob(std::string name, std::string choices, std::int64_t default_value, std::string doc = {}) {
        const auto commas = std::count(choices.begin(), choices.end(), ',');
        knobs_.push_back(
            {OPDOCK_KNOB_CHOICE, std::move(name), 0, commas, default_value, std::move(doc), std::move(choices)});
        return *this;
    }

    Impl &kernel(opdock_kernel function) { return set(impl_.kernel, function); }
    Impl &available(decltype(opdock_impl::available) function) { return set(impl_.available, function); }
    Impl &supports(decltype(opdock_impl::supports) function) { return set(impl_.supports, function); }
    Impl &heuristic(decltype(opdock_impl::heuristic) function) { return set(impl_.heuristic, function); }
    Impl &workspace_size(decltype(opdock_impl::workspace_size) function) { return set(impl_.workspace_size, function); }
    Impl &get_extension(decltype(opdock_impl::get_extension) function) { return set(impl_.get_extension, function); }
    Impl &device_state(const DeviceStateFunctions &functions) {
        impl_.device_fini = functions.fini;
        return set(impl_.device_init, functions.init);
    }
    Impl &plan(const PlanFunctions &functions) {
        impl_.plan_destroy = functions.destroy;
        return set(impl_.plan_create, functions.create);
    }

  private:
    friend class Registry;

    struct Knob {
        std::uint32_t type;
        std::string name;
        std::int64_t minimum, maximum, default_value;
        std::string doc;
        std::string choices;
    };

    template<class Field, class Value>
    Impl &set(Field &field, Value &&value) {
        field = std::forward<Value>(value);
        return *this;
    }

    static const char *or_null(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

    // Calls function(const opdock_impl *) with a struct that is valid for the duration of the call.
    template<class Function>
    void with(const std::string &op, Function &&function) const {
        std::vector<opdock_knob> knobs(knobs_.size());
        std::vector<const opdock_knob *> pointers(knobs_.size());
        for (std::size_t i = 0; i < knobs_.size(); ++i) {
            const Knob &from = knobs_[i];
            knobs[i].struct_size = OPDOCK_STRUCT_SIZE(opdock_knob, choices);
            knobs[i].type = from.type;
            knobs[i].name = from.name.c_str();
            knobs[i].minimum = from.minimum;
            knobs[i].maximum = from.maximum;
            knobs[i].default_value = from.default_value;
            knobs[i].doc = or_null(from.doc);
            knobs[i].choices = or_null(from.choices);
            pointers[i] = &knobs[i];
        }
        opdock_impl impl = impl_;
        impl.op = op.c_str();
        impl.impl_id = impl_id_.c_str();
        impl.vendor = or_null(vendor_);
        impl.device = device_.c_str();
        impl.dtypes = or_null(dtypes_);
        impl.architectures = or_null(architectures_);
        impl.n_knobs = static_cast<std::uint32_t>(knobs.size());
        impl.knobs = knobs.empty() ? nullptr : pointers.data();
        function(&impl);
    }

    opdock_impl impl_ = {};
    std::string impl_id_;
    std::string vendor_;
    std::string device_ = "cpu";
    std::string dtypes_;
    std::string architectures_;
    std::vector<Knob> knobs_;
};

// A vendor as known to frameworks; see opdock/abi/vendor.h. Empty strings become null there.
struct Vendor {
    std::string name;
    std::string device_name;
    std::string dispatch_key;
    std::string device_query_command;
};

class Registry {
  public:
    explicit Registry(opdock_registry &registry) noexcept : registry_(&registry) {}
    Registry(const Registry &) = delete;
    Registry &operator=(const Registry &) = delete;

    opdock_registry &c() const noexcept { return *registry_; }
    // The program's argument for the entry of its module; null in a plugin.
    template<class T>
    T *user_data() const noexcept {
        return static_cast<T *>(registry_->user_data);
    }

    // Declares the op unless this plugin has already done so, and registers an implementation of it.
    Registry &implement(const OpDeclaration &op, const Impl &impl) {
        declare(op);
        impl.with(std::string(op.name), [&](const opdock_impl *c) { registry_->register_impl(registry_, c); });
        return *this;
    }

    Registry &declare(const OpDeclaration &op) {
        if (std::find(declared_.begin(), declared_.end(), op.signature) != declared_.end())
            return *this;
        declared_.push_back(op.signature);
        opdock_op_declaration c = {};
        c.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
        c.signature = op.signature.data();
        c.doc = op.doc.empty() ? nullptr : op.doc.data();
        registry_->register_op(registry_, &c);
        return *this;
    }

    Registry &vendor(const Vendor &vendor) {
        opdock_vendor c = {};
        c.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
        c.name = vendor.name.c_str();
        c.device_name = Impl::or_null(vendor.device_name);
        c.dispatch_key = Impl::or_null(vendor.dispatch_key);
        c.device_query_command = Impl::or_null(vendor.device_query_command);
        registry_->register_vendor(registry_, &c);
        return *this;
    }

    Registry &device(const opdock_device_provider &device) {
        registry_->register_device_provider(registry_, &device);
        return *this;
    }

    // `function` runs when the host closes; it must not throw.
    Registry &on_shutdown(void (*function)(void *user_data), void *user_data = nullptr) {
        registry_->register_shutdown(registry_, function, user_data);
        return *this;
    }

  private:
    opdock_registry *registry_;
    std::vector<std::string_view> declared_;
};

// The firewall of the entry: runs register_all(Registry &) and returns the status for the entry to return.
template<class Function>
opdock_status register_plugin(opdock_registry *registry, Function &&register_all) {
    try {
        Registry wrapped(*registry);
        register_all(wrapped);
        return OPDOCK_OK;
    } catch (...) {
        detail::let_cancellation_pass();
        return detail::status_of_exception([registry](opdock_status status, const char *message) {
            return registry->fail(registry, status, message);
        });
    }
}

} // namespace opdock

#endif
