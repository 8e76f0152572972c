// A call with its tensors where its device has them.
#pragma once

#include <memory>
#include <vector>

#include "op-call/call.hpp"

namespace opdock::op_call {

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
    opdock_host *runtime_;
    DLDevice device_;
    void *memory_ = nullptr;
};

class PlacedCall {
  public:
    // Makes the inputs, infers the outputs, and copies what belongs there to the device. Borrows the arguments. Throws
    // opdock::Error, cli::Failure and files::Error.
    PlacedCall(const Host &host, const Op &op, const Signature &signature, const Arguments &arguments,
               const Spelling &spelling, DLDevice device);

    const Args &args() const { return call_->args(); }
    // Where the tensors are.
    const Operands &inputs() const { return placed_inputs_; }
    const Operands &outputs() const { return placed_outputs_; }

  private:
    void place(const Host &host, Operands &operands, const std::vector<Parameter> &parameters, DLDevice device,
               bool with_values);

    std::vector<Tensors> inputs_;
    std::vector<HostTensor> outputs_;
    std::vector<DeviceBuffer> buffers_;
    Operands placed_inputs_;
    Operands placed_outputs_;
    std::unique_ptr<Call> call_;
};

} // namespace opdock::op_call
