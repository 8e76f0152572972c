// The opdock_host_api that plugins are given, all that they know of a host; it lives as long as the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

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

} // namespace opdock::core
