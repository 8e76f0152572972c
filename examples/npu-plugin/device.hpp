#pragma once

#include "opdock/plugin.hpp"

namespace npu {

inline constexpr const char *type = "npu";

// Gives hosts and tools access to the device: its memory, streams and events.
opdock_device_provider provider();

} // namespace npu
