// The command by which a vendor's plugin says whether the vendor's device is there (abi/vendor.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace opdock::core {

// Says of the path of a program, or of a script's interpreter, why it is not to be run; "" when it may.
using JudgeProgram = std::function<std::string(const std::string &path)>;

// Runs the words of the command, without a shell, confined by `probe` (plugin-probe) as a plugin for devices is while
// it is tried. The first is an absolute path, or a name that an absolute folder of PATH has. Returns "" when the device
// is present, as it is for a program that takes the ends of all children itself, else the reason why not. `secure`: the
// environment, with its PATH, cannot be trusted, and is not passed on; else the command is given it with those folders
// of PATH and LD_LIBRARY_PATH that are absolute and that nobody else may write to. `judge` may be null.
std::string run_device_query(const std::string &command, const std::string &probe, bool secure,
                             const JudgeProgram &judge = {}, std::chrono::milliseconds limit = std::chrono::seconds(5));

} // namespace opdock::core
