// How fast the device copies: what ops that compute little are measured against.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device_facts.hpp"
#include "op-call/placed_call.hpp"

namespace opdock::plugin_bench {

class CopyRate {
  public:
    // Two buffers of twice the last level of cache each, 64 MiB to 512 MiB. Throws opdock::Error.
    CopyRate(const Host &host, const DeviceFacts &facts);

    // Bytes read and written, together, per second: the median of some copies of one buffer to the other. On a CPU all
    // cores copy a part each by memcpy, which goes around the caches for parts of this size; elsewhere the device's
    // provider copies.
    double measure() const;
    size_t bytes() const { return bytes_; } // of a buffer

  private:
    double microseconds() const;

    const Host &host_;
    const DLDevice device_;
    const size_t bytes_;
    op_call::DeviceBuffer from_;
    op_call::DeviceBuffer to_;
};

} // namespace opdock::plugin_bench
