#pragma once

#include "opdock/plugin.hpp"

namespace npu {

inline constexpr const char *type = "npu";

// What hosts and tools need of the device: its memory, streams and events.
opdock_device_provider provider();

} // namespace npu
