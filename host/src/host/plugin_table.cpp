#include "host/plugin_table.hpp"

#include <cstring>
#include <string>
#include <thread>

#include "dispatch/composite.hpp"
#include "host/extensions.hpp"
#include "host/host.hpp"
#include "load/plugin_call.hpp"
#include "load/thread_state.hpp"
#include "text/spelling.hpp"
#include "tune/variables.hpp"

namespace opdock::core {
namespace {

// All kept tables, in a lock-free list, since a forked child could inherit a held lock.
std::atomic<PluginTable *> newest{nullptr};

void host_log(const opdock_host_api *api, int32_t level, const char *message) {
    in_open_host(api, false, [&](const Host &host) {
        host.log().write(level, line_of(message));
        return true;
    });
}

opdock_status host_fail(const opdock_host_api * /*api*/, opdock_status status, const char *message) {
    try {
        ThreadState &thread = thread_state();
        thread.leave_message(line_of(message));
        thread.error = thread.message; // no later step sets it for a prepared call
    } catch (...) {                    // the status alone must do
    }
    return status;
}

int64_t host_dim(const opdock_problem *problem, const char *name) {
    const auto &attempt = *static_cast<const Attempt *>(problem->host_data);
    try {
        return dim_of(*attempt.implementation.form, *problem, name != nullptr ? name : "").value_or(-1);
    } catch (...) {
        return -1;
    }
}

const opdock_device_properties *host_device_properties(const opdock_host_api *api, DLDevice device) {
    const opdock_device_properties *const none = nullptr;
    return in_open_host(api, none, [&](const Host &host) { return host.devices().properties(device); });
}

const void *host_get_extension(const opdock_host_api *api, const char *name) {
    const void *const none = nullptr;
    const ThreadState *const thread = opdock_thread_state;
    if (thread != nullptr && (thread->flags & ThreadState::registering) != 0) {
        return none; // as in the probe: a plugin's registration must not depend on the program
    }
    const void *const own = own_extension(name);
    return own != nullptr ? own : in_open_host(api, none, [&](const Host &host) { return host.extension(name); });
}

} // namespace

void PluginTable::close() {
    host = nullptr;
    while (users != 0) {
        std::this_thread::yield(); // a plugin's thread is using the host
    }
}

void PluginTable::keep() noexcept {
    if (kept.exchange(true)) {
        return;
    }
    older = newest.load();
    while (!newest.compare_exchange_weak(older, this)) {
    }
}

void PluginTable::Release::operator()(PluginTable *table) const noexcept {
    if (!table->kept) {
        delete table;
    }
}

PluginTablePtr new_plugin_table() {
    PluginTablePtr made(new PluginTable);
    opdock_host_api &api = made->api;
    api.struct_size = OPDOCK_STRUCT_SIZE(opdock_host_api, device_properties);
    api.abi_major = OPDOCK_ABI_MAJOR;
    api.abi_minor = OPDOCK_ABI_MINOR;
    api.host_data = made.get();
    api.log = host_log;
    api.fail = host_fail;
    api.get_extension = host_get_extension;
    api.call_op = call_from_kernel;
    api.dim = host_dim;
    api.device_properties = host_device_properties;
    return made;
}

} // namespace opdock::core
