// The opdock_host_api that plugins are given, all that they know of a host; it lives as long as the process.
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
    std::atomic<const Host *> host{nullptr}; // null when it was closed
    std::atomic<uint32_t> users{0};          // threads of plugins that are using `host`
    std::atomic<bool> kept{false};
    PluginTable *older = nullptr;
    std::list<std::unique_ptr<Registrar>> registrars; // of the closed host: plugins may have kept their registries

    // To be called before a plugin's code gets it.
    void keep() noexcept;
    // From here on nothing uses the host.
    void close();

    // What the host holds it with.
    struct Release {
        void operator()(PluginTable *table) const noexcept;
    };
};
using PluginTablePtr = std::unique_ptr<PluginTable, PluginTable::Release>;

PluginTablePtr new_plugin_table();

// Calls `look` with the host, which is not closed meanwhile, and returns what it returns; `otherwise` where the host is
// closed, or there is no memory to look.
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
