// The device that a command line names.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "opdock/opdock.hpp"

namespace opdock::op_call {

struct FoundDevice {
    nlohmann::json record; // as opdock_devices has it; null when there is none
    std::string problem;   // why there is none
};

// `text` is "cuda:1", or "cuda" for the first of its type. Opens the plugins that provide devices.
FoundDevice find_device(const Host &host, const std::string &text);

// The record. Throws cli::Failure when there is none: before anything is made that such a device would need.
nlohmann::json device_record(const Host &host, const std::string &text);

} // namespace opdock::op_call
