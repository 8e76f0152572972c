// The device's copy rate: the yardstick for ops that compute little.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device_facts.hpp"
#include "op-call/placed_call.hpp"

namespace opdock::plugin_bench {

class CopyRate {
  public:
    // Allocates two buffers, each twice the last-level cache, 64 MiB to 512 MiB. Throws opdock::Error.
    CopyRate(const Host &host, const DeviceFacts &facts);

    // Bytes read plus bytes written, per second: the median of several copies from one buffer to the other. On a CPU
    // each core copies a part by memcpy, which bypasses the caches for parts of this size; elsewhere the device's
    // provider does the copy.
    double measure() const;
    size_t bytes() const { return bytes_; } // per buffer

  private:
    double microseconds() const;

    const Host &host_;
    const DLDevice device_;
    const size_t bytes_;
    op_call::DeviceBuffer from_;
    op_call::DeviceBuffer to_;
};

} // namespace opdock::plugin_bench
