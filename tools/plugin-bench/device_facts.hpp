// What is measured on.
#pragma once

#include <cstdint>
#include <string>

#include "opdock/opdock.hpp"

namespace opdock::plugin_bench {

struct DeviceFacts {
    DLDevice device;
    std::string name; // "cuda:1"
    std::string model;
    std::string architecture;
    std::string driver;
    uint64_t memory; // bytes
    uint64_t cache;  // bytes of the last level; a guess where it is not known

    bool is_cpu() const { return device.device_type == kDLCPU; }
};

// `text` as --device has it. Throws cli::Failure when there is no such device.
DeviceFacts facts_of(const Host &host, const std::string &text);

} // namespace opdock::plugin_bench
