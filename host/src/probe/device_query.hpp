// The command with which a vendor's plugin checks for the vendor's device (abi/vendor.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace opdock::core {

// Returns why the program or script interpreter at this path must not be run; "" if it may be run.
using JudgeProgram = std::function<std::string(const std::string &path)>;

// Runs the words of the command without a shell, confined by `probe` (plugin-probe) like a device plugin on trial. The
// first word is an absolute path, or a name to find in an absolute folder of PATH. Returns "" if the device is present,
// else the reason why not; this also works in a program that reaps all children itself. `secure`: the environment,
// including PATH, cannot be trusted and is not passed on; otherwise it is passed on, with PATH and LD_LIBRARY_PATH
// reduced to folders that are absolute and that no other user may write to. `judge` may be null.
std::string run_device_query(const std::string &command, const std::string &probe, bool secure,
                             const JudgeProgram &judge = {}, std::chrono::milliseconds limit = std::chrono::seconds(5));

} // namespace opdock::core
