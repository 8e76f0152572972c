// A call with its tensors where its device has them.
#pragma once

#include <memory>
#include <vector>

#include "op-call/call.hpp"

namespace opdock::plugin_tune {

// Memory of a device, given back when it goes.
class DeviceBuffer {
  public:
    DeviceBuffer(const Host &host, DLDevice device, uint64_t bytes);
    ~DeviceBuffer();
    DeviceBuffer(DeviceBuffer &&other) noexcept;
    DeviceBuffer &operator=(DeviceBuffer &&) = delete;
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;

    void *get() const { return memory_; }

  private:
    opdock_runtime *runtime_;
    DLDevice device_;
    void *memory_ = nullptr;
};

class PlacedCall {
  public:
    // Makes the inputs, infers the outputs, and copies what belongs there to the device. Borrows the arguments. Throws
    // opdock::Error, cli::Failure and files::Error.
    PlacedCall(const Host &host, const Op &op, const op_call::Signature &signature, const op_call::Arguments &arguments,
               const op_call::Spelling &spelling, DLDevice device);

    const Args &args() const { return call_->args(); }

  private:
    void place(const Host &host, op_call::Operands &operands, const std::vector<op_call::Parameter> &parameters,
               DLDevice device, bool with_values);

    std::vector<op_call::Tensors> inputs_;
    std::vector<op_call::HostTensor> outputs_;
    std::vector<DeviceBuffer> buffers_;
    std::unique_ptr<op_call::Call> call_;
};

} // namespace opdock::plugin_tune
