// The device that is measured.
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
    uint64_t cache;  // bytes of the last-level cache; a guess if unknown

    bool is_cpu() const { return device.device_type == kDLCPU; }
};

// `text` is in the form of --device. Throws cli::Failure if there is no such device.
DeviceFacts facts_of(const Host &host, const std::string &text);

} // namespace opdock::plugin_bench
