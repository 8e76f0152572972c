// The command by which a vendor's plugin says whether the vendor's device is there (abi/vendor.h).
#pragma once

#include <chrono>
#include <string>

namespace opdock::core {

// Runs the words of the command, without a shell, confined by `probe` (plugin-probe) as a plugin for devices is while
// it is tried. Returns "" when the device is present, as it is for a program that takes the ends of all children
// itself, else the reason why not. `secure`: the environment, with its PATH, cannot be trusted, and is not passed on.
std::string run_device_query(const std::string &command, const std::string &probe, bool secure,
                             std::chrono::milliseconds limit = std::chrono::seconds(5));

} // namespace opdock::core
