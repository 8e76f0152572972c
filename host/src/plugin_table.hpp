// What plugins know of a host: the opdock_host they are given, which the ABI promises for as long as the process.
#pragma once

#include <atomic>
#include <cstdint>

#include "opdock/opdock.h"

namespace opdock::core {

class Host;

// Outlives its host and is never freed.
struct PluginTable {
    opdock_host api = {};
    std::atomic<const Host *> host{nullptr}; // null when it was closed
    std::atomic<uint32_t> users{0};          // threads of plugins that are using `host`
    PluginTable *older = nullptr;

    // From here on nothing uses the host.
    void close();
};

PluginTable &new_plugin_table();

} // namespace opdock::core
