// The device named on a command line.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "opdock/opdock.hpp"

namespace opdock::op_call {

struct FoundDevice {
    nlohmann::json record; // the entry of opdock_devices; null if there is no such device
    std::string problem;   // why there is no such device
};

// `text` is "cuda:1", or "cuda" for the first device of that type. Opens the plugins that provide devices.
FoundDevice find_device(const Host &host, const std::string &text);

// Returns the record. Throws cli::Failure if there is no such device, before anything that needs it is created.
nlohmann::json device_record(const Host &host, const std::string &text);

} // namespace opdock::op_call
