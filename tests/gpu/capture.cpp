#include "capture.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "op-call/element.hpp"

namespace gpu_tests {

using opdock::op_call::Operand;
using opdock::op_call::Operands;
using opdock::op_call::Parameter;
using opdock::op_call::Signature;
using opdock::op_call::Tensors;

CapturedCall::CapturedCall(const opdock::Host &host, const opdock::Op &op, const Signature &signature,
                           const opdock::plugin_check::Case &one, const std::vector<Tensors> &inputs, DLDevice device,
                           cudaStream_t stream)
    : stream_(stream), host_(host), device_(device) {
    inputs_ = opdock::op_call::operands_of(inputs);
    opdock::op_call::put_on(inputs_, signature.inputs, device);
    outputs_ = opdock::op_call::infer_outputs(op, signature, inputs_, one.attributes,
                                              [&](size_t o) { return one.has(signature.outputs[o]); });
    opdock::op_call::put_on(outputs_, signature.outputs, device);
    const auto place_all = [&](Operands &operands, const std::vector<Parameter> &parameters, bool are_inputs) {
        for (size_t i = 0; i < operands.size(); ++i) {
            for (Operand &operand : operands[i]) {
                if (parameters[i].host) {
                    throw std::runtime_error("'" + parameters[i].name + "' stays with the host, which is not tried");
                }
                operand.data = place(host, device,
                                     {parameters[i].name, nullptr, opdock::op_call::bytes_of(operand),
                                      are_inputs ? static_cast<const std::byte *>(operand.data) : nullptr,
                                      !are_inputs || parameters[i].mut, operand.dtype});
            }
        }
    };
    place_all(inputs_, signature.inputs, true);
    place_all(outputs_, signature.outputs, false);
    check_cuda("waiting for the device",
               cudaDeviceSynchronize()); // memory allocated on one stream is used on another
    pointers_ = opdock::op_call::pointers_of(signature, inputs_, outputs_);
    call_ = std::make_unique<opdock::op_call::Call>(signature, inputs_, outputs_, one.attributes, device);
}

void *CapturedCall::place(const opdock::Host &host, DLDevice device, Placed placed) {
    buffers_.emplace_back(host, device, placed.bytes == 0 ? 1 : placed.bytes);
    placed.memory = buffers_.back().get();
    placed_.push_back(std::move(placed));
    return buffers_.back().get();
}

bool CapturedCall::prepare(const opdock::Op &op, const opdock::Policy &policy) {
    opdock_prepared *prepared = nullptr;
    const opdock_status status = opdock_prepare(op.c(), &call_->args().c(), policy.c(), &prepared);
    if (status == OPDOCK_UNSUPPORTED || status == OPDOCK_INVALID_ARGUMENT) {
        return false;
    }
    opdock::detail::check(status);
    prepared_.emplace(prepared);
    if (prepared_->workspace_size() != 0) {
        workspace_.emplace(host_, device_, prepared_->workspace_size());
        check_cuda("waiting for the device", cudaDeviceSynchronize());
    }
    return true;
}

void CapturedCall::reset(int poison) const {
    for (const Placed &one : placed_) {
        if (one.values != nullptr) {
            check_cuda("copying an input",
                       cudaMemcpyAsync(one.memory, one.values, one.bytes, cudaMemcpyHostToDevice, stream_));
        } else {
            check_cuda("clearing an output", cudaMemsetAsync(one.memory, poison, one.bytes, stream_));
        }
    }
    if (workspace_) {
        check_cuda("clearing the workspace",
                   cudaMemsetAsync(workspace_->get(), poison, prepared_->workspace_size(), stream_));
    }
    check_cuda("waiting for the stream", cudaStreamSynchronize(stream_));
}

void CapturedCall::run() const {
    opdock::detail::check(prepared_->run(pointers_, stream_, workspace_ ? workspace_->get() : nullptr));
}

std::vector<std::vector<std::byte>> CapturedCall::written() const {
    std::vector<std::vector<std::byte>> all;
    for (const Placed &one : placed_) {
        if (one.is_written) {
            auto &bytes = all.emplace_back(one.bytes);
            check_cuda("copying an output",
                       cudaMemcpyAsync(bytes.data(), one.memory, one.bytes, cudaMemcpyDeviceToHost, stream_));
        }
    }
    check_cuda("waiting for the stream", cudaStreamSynchronize(stream_));
    return all;
}

// Counts bytes, or, if the implementation is not deterministic, elements.
size_t CapturedCall::count_different(const Placed &of, const std::vector<std::byte> &eager,
                                     const std::vector<std::byte> &replayed, bool is_deterministic) {
    size_t different = 0;
    if (is_deterministic) {
        for (size_t i = 0; i < of.bytes; ++i) {
            different += replayed[i] != eager[i] ? 1 : 0;
        }
        return different;
    }
    const size_t count = of.bytes * 8 / opdock_dtype_unpack(of.dtype).bits;
    const std::vector<double> first = opdock::op_call::load_elements(of.dtype, eager.data(), count);
    const std::vector<double> second = opdock::op_call::load_elements(of.dtype, replayed.data(), count);
    double largest = 0;
    for (const double value : first) {
        largest = std::max(largest, std::fabs(value));
    }
    for (size_t i = 0; i < count; ++i) {
        different += std::fabs(first[i] - second[i]) <= 0.01 * largest ? 0 : 1;
    }
    return different;
}

std::string CapturedCall::compare_replay(bool is_deterministic) {
    reset(0xff);
    run();
    const std::vector<std::vector<std::byte>> eager = written();
    const Graph graph(stream_, [&] { run(); });
    for (const int poison : {0x7b, 0xff}) { // twice, since graphs are made to be replayed
        reset(poison);
        graph.launch(stream_);
        const std::vector<std::vector<std::byte>> replayed = written();
        size_t at = 0;
        for (const Placed &one : placed_) {
            const size_t different =
                one.is_written ? count_different(one, eager[at], replayed[at], is_deterministic) : 0;
            if (different != 0) {
                return "'" + one.name + "' differs in " + std::to_string(different) + " of " +
                       std::to_string(one.bytes) + (is_deterministic ? " bytes" : " bytes' numbers") +
                       " from the run that was not captured";
            }
            at += one.is_written ? 1 : 0;
        }
    }
    return "";
}

} // namespace gpu_tests
