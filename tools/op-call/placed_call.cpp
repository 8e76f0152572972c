#include "op-call/placed_call.hpp"

#include <utility>

#include "cli/exit.hpp"

namespace opdock::op_call {
DeviceBuffer::DeviceBuffer(const Host &host, DLDevice device, uint64_t bytes) : runtime_(host.c()), device_(device) {
    detail::check(opdock_device_allocate(runtime_, device, nullptr, bytes, &memory_));
}

DeviceBuffer::~DeviceBuffer() {
    if (memory_ != nullptr) {
        opdock_device_free(runtime_, device_, nullptr, memory_);
    }
}

DeviceBuffer::DeviceBuffer(DeviceBuffer &&other) noexcept
    : runtime_(other.runtime_), device_(other.device_), memory_(std::exchange(other.memory_, nullptr)) {}

PlacedCall::PlacedCall(const Host &host, const Op &op, const Signature &signature, const Arguments &arguments,
                       const Spelling &spelling, DLDevice device)
    : inputs_(make_inputs(arguments, signature, spelling, 0)) {
    placed_inputs_ = operands_of(inputs_);
    placed_outputs_ = infer_outputs(op, signature, placed_inputs_, arguments);
    place(host, placed_inputs_, signature.inputs, device, true);
    place(host, placed_outputs_, signature.outputs, device, false);
    if (!buffers_.empty()) {
        detail::check(opdock_device_synchronize(host.c(), device, nullptr));
    }
    call_ = std::make_unique<Call>(signature, placed_inputs_, placed_outputs_, arguments.attributes, device);
}

void PlacedCall::place(const Host &host, Operands &operands, const std::vector<Parameter> &parameters, DLDevice device,
                       bool with_values) {
    for (size_t i = 0; i < operands.size(); ++i) {
        for (Operand &operand : operands[i]) {
            if (device.device_type != kDLCPU && !parameters[i].host) {
                buffers_.emplace_back(host, device, bytes_of(operand));
                if (with_values) {
                    detail::check(opdock_device_copy(host.c(), buffers_.back().get(), device, operand.data, cpu,
                                                     bytes_of(operand), nullptr));
                }
                operand.data = buffers_.back().get();
            } else if (!with_values) {
                try {
                    outputs_.emplace_back(operand.dtype, operand.shape);
                } catch (const NoMemory &error) {
                    throw cli::Failure("output " + parameters[i].name + ": " + error.what());
                }
                operand.data = outputs_.back().memory.get();
            }
        }
    }
    put_on(operands, parameters, device);
}

} // namespace opdock::op_call
