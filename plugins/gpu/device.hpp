// The device type that this plugin provides.
#pragma once

#include "opdock/plugin.hpp"

namespace gpu {

// Valid for the life of the process.
const opdock_device_provider &device_table();

} // namespace gpu
