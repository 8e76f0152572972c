// What one plugin's entry registered, as values. Nothing here points into the plugin but functions and user_data.
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
    std::vector<std::string> choices; // of OPDOCK_KNOB_CHOICE, whose values count from 0
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
    uint32_t alignment = 0; // bytes, 0: each dtype's size
    uint32_t required_flags = 0;
    uint32_t tune_version = 0;
    std::vector<Knob> knobs;
    // The form of the op's signature that the plugin declared, and so the one its kernel knows.
    std::shared_ptr<const Signature> form;

    // The command that says whether its vendor's device is there; empty where none has to be asked.
    std::string device_query;

    // Where its code may go while the host is open; null for all others.
    std::shared_ptr<Tenancy> tenancy;

    // What the plugin registered: stand-ins where its registration was replayed.
    Callbacks registered;
    // Set once, when the plugin that was known from a replay is opened: the same functions are there, now real.
    mutable std::atomic<const Callbacks *> opened{nullptr};
    // The plugin that has to be opened before a callback is called; null when it is.
    mutable DeferredPlugin *deferred = nullptr;

    const Callbacks &callbacks() const {
        const Callbacks *real = opened.load(std::memory_order_acquire);
        return real != nullptr ? *real : registered;
    }
    // Whether something has to be asked before it is known to be available on a device.
    bool has_conditions() const { return callbacks().available != nullptr || !device_query.empty(); }
};

struct Vendor {
    std::string name;
    std::string device_name;
    std::string dispatch_key;
    std::string device_query_command;
};

// A device type as a plugin (or the host, for "cpu") provides it.
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
