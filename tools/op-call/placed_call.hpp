// A call with its tensors in its device's memory.
#pragma once

#include <memory>
#include <vector>

#include "op-call/call.hpp"

namespace opdock::op_call {

// Device memory, freed by the destructor.
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
    // Creates the inputs, infers the outputs, and copies to the device what belongs there. Borrows the arguments.
    // Throws opdock::Error, cli::Failure and files::Error.
    PlacedCall(const Host &host, const Op &op, const Signature &signature, const Arguments &arguments,
               const Spelling &spelling, DLDevice device);

    const Args &args() const { return call_->args(); }
    // The tensors in their final places.
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
