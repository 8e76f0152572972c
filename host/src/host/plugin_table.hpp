// The opdock_host_api given to plugins, their only access to a host; it lives as long as the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "load/cancellation.hpp"
#include "load/register.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

class Host;

// Outlives its host, and is never freed once a plugin has seen it.
struct PluginTable {
    opdock_host_api api = {};
    std::atomic<const Host *> host{nullptr}; // null after it was closed
    std::atomic<uint32_t> users{0};          // plugins' threads that are using `host`
    std::atomic<bool> kept{false};
    PluginTable *older = nullptr;
    std::list<std::unique_ptr<Registrar>> registrars; // of the closed host: plugins may have kept their registries

    // To be called before the table is passed to a plugin's code.
    void keep() noexcept;
    // From here on nothing uses the host.
    void close();

    // Deleter for the host's pointer.
    struct Release {
        void operator()(PluginTable *table) const noexcept;
    };
};
using PluginTablePtr = std::unique_ptr<PluginTable, PluginTable::Release>;

PluginTablePtr new_plugin_table();

// Calls `look` with the host, which stays open during the call, and returns its result; returns
// `otherwise` if the host is closed or memory runs out.
template<class Found, class Look>
Found in_open_host(const opdock_host_api *api, Found otherwise, Look look) {
    PluginTable &table = *static_cast<PluginTable *>(const_cast<void *>(api->host_data));
    const Uncancellable host_work;
    table.users.fetch_add(1);
    try {
        if (const Host *host = table.host.load()) {
            otherwise = look(*host);
        }
    } catch (...) { // NOLINT(bugprone-empty-catch)
    }
    table.users.fetch_sub(1);
    return otherwise;
}

} // namespace opdock::core
