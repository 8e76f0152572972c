// The device type that this plugin brings.
#pragma once

#include "opdock/plugin.hpp"

namespace gpu {

// Valid as long as the process.
const opdock_device_provider &device_table();

} // namespace gpu
