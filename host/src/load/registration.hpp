// The registration of one plugin as values. Only functions and user_data point into the plugin.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "load/candidate.hpp"
#include "opdock/plugin.h"
#include "signature/signature.hpp"

namespace opdock::core {

class DeferredPlugin;
class Tenancy;

struct Knob {
    std::string name;
    std::string doc;
    uint32_t type = OPDOCK_KNOB_INT;
    int64_t minimum = 0;
    int64_t maximum = 0;
    int64_t default_value = 0;
    std::vector<std::string> choices; // of OPDOCK_KNOB_CHOICE; its values are indices from 0
};

// The functions of an implementation.
struct Callbacks {
    void *user_data = nullptr;
    opdock_kernel kernel = nullptr;
    decltype(opdock_impl::available) available = nullptr;
    decltype(opdock_impl::supports) supports = nullptr;
    decltype(opdock_impl::heuristic) heuristic = nullptr;
    decltype(opdock_impl::device_init) device_init = nullptr;
    decltype(opdock_impl::device_fini) device_fini = nullptr;
    decltype(opdock_impl::plan_create) plan_create = nullptr;
    decltype(opdock_impl::plan_destroy) plan_destroy = nullptr;
    decltype(opdock_impl::workspace_size) workspace_size = nullptr;
    decltype(opdock_impl::get_extension) get_extension = nullptr;
};

struct Implementation : Candidate {
    std::string op;
    std::string plugin; // id
    std::string dtypes_text;
    uint32_t alignment = 0; // bytes; 0: the size of each dtype
    uint32_t required_flags = 0;
    uint32_t tune_version = 0;
    std::vector<Knob> knobs;
    // The form of the op's signature that the plugin declared, which its kernel knows.
    std::shared_ptr<const Signature> form;

    // The command that checks for the vendor's device; empty if no query is needed.
    std::string device_query;

    // For code that may be unloaded while the host is open; null for all other code.
    std::shared_ptr<Tenancy> tenancy;

    // The registered functions: stand-ins if the registration was replayed.
    Callbacks registered;
    // Set once, when a plugin known from a replay is opened: the same functions, now real.
    mutable std::atomic<const Callbacks *> opened{nullptr};
    // The plugin to open before a callback is called; null if it is open.
    mutable DeferredPlugin *deferred = nullptr;

    const Callbacks &callbacks() const {
        const Callbacks *real = opened.load(std::memory_order_acquire);
        return real != nullptr ? *real : registered;
    }
    // True if availability on a device is known only after a query.
    bool has_conditions() const { return callbacks().available != nullptr || !device_query.empty(); }
};

struct Vendor {
    std::string name;
    std::string device_name;
    std::string dispatch_key;
    std::string device_query_command;
};

// A device type as provided by a plugin, or by the host for "cpu".
struct DeviceProvider {
    std::string type; // "cuda"
    std::string stream_type;
    std::string plugin; // id, empty for the host's own
    opdock_device_provider table = {};
};

struct OpDeclaration {
    std::shared_ptr<const Signature> signature;
    std::string doc;
    std::string plugin; // id
};

struct Shutdown {
    void (*function)(void *user_data) = nullptr;
    void *user_data = nullptr;
};

struct Registration {
    std::vector<Vendor> vendors;
    std::vector<std::shared_ptr<const DeviceProvider>> devices;
    std::vector<OpDeclaration> ops;
    std::vector<std::shared_ptr<const Implementation>> implementations;
    std::vector<Shutdown> shutdowns;
};

} // namespace opdock::core
