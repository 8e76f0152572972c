// Makes a device's call on the CPU, on copies of its tensors in the CPU's memory (policy item fallback_to_cpu).
#pragma once

#include <vector>

#include "devices/device_memory.hpp"
#include "opdock/opdock.h"
#include "signature/bind.hpp"

namespace opdock::core {

class CpuCopies {
  public:
    // Copies the op's inputs in the order of the call's stream and waits for the copies. Tensors of
    // `bound` that live on the host are not copied. Throws Error.
    CpuCopies(const Devices &devices, const Signature &signature, const Bound &bound, const opdock_args &args);
    CpuCopies(const CpuCopies &) = delete;
    CpuCopies &operator=(const CpuCopies &) = delete;
    ~CpuCopies() = default;

    // The call's arguments on the CPU.
    const opdock_args &args() const { return args_; }
    // Copies the op's outputs back, element by element where strides leave gaps, and waits for it. Throws Error.
    void copy_back() const;

  private:
    struct Copy {
        DLTensor tensor;
        const DLTensor *theirs;
        bool is_dense; // no gaps between elements
        bool written;
    };

    const DeviceAccess device_;
    const DeviceAccess cpu_;
    std::vector<DeviceMemory> memory_;
    std::vector<Copy> copies_;
    std::vector<const DLTensor *> tensors_;
    opdock_args args_;
};

} // namespace opdock::core
