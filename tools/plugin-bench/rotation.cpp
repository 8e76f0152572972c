#include "rotation.hpp"

#include <algorithm>

namespace opdock::plugin_bench {
namespace {

using op_call::bytes_of;
using op_call::DeviceBuffer;
using op_call::Operand;

constexpr uint64_t alignment = 256;

uint64_t padded(uint64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

void copy(const Host &host, DLDevice device, void *to, const void *from, uint64_t bytes) {
    detail::check(opdock_device_copy(host.c(), to, device, from, device, bytes, nullptr));
}

// `copies` of the tensor, one after the other, made by doubling the part already copied.
DeviceBuffer copies_of(const Host &host, const Operand &tensor, size_t copies) {
    const uint64_t stride = padded(bytes_of(tensor));
    DeviceBuffer buffer(host, tensor.device, stride * copies);
    auto *begin = static_cast<std::byte *>(buffer.get());
    copy(host, tensor.device, begin, tensor.data, bytes_of(tensor));
    for (size_t there = 1; there < copies; there *= 2) {
        copy(host, tensor.device, begin + there * stride, begin, std::min(there, copies - there) * stride);
    }
    return buffer;
}

} // namespace

Rotation::Rotation(const Host &host, const op_call::Signature &signature, const op_call::PlacedCall &call,
                   DLDevice device, size_t copies)
    : host_(host), pointers_(copies, op_call::pointers_of(signature, call.inputs(), call.outputs())) {
    size_t index = 0; // in the list of pointers
    const auto take = [&](const std::vector<op_call::Parameter> &parameters, const op_call::Operands &operands) {
        for (size_t i = 0; i < operands.size(); ++i) {
            for (const Operand &tensor : operands[i]) {
                if (copies > 1 && bytes_of(tensor) != 0) {
                    buffers_.push_back(copies_of(host, tensor, copies));
                    auto *place = static_cast<std::byte *>(buffers_.back().get());
                    for (auto &pointers : pointers_) {
                        pointers[index] = place;
                        place += padded(bytes_of(tensor));
                    }
                }
                if (parameters[i].mut && bytes_of(tensor) != 0) {
                    keep(tensor, index);
                }
                ++index;
            }
            index += operands[i].empty() && !parameters[i].list ? 1 : 0;
        }
    };
    take(signature.inputs, call.inputs());
    take(signature.outputs, call.outputs());
    detail::check(opdock_device_synchronize(host.c(), device, nullptr));
}

void Rotation::keep(const Operand &tensor, size_t index) {
    kept_.push_back({DeviceBuffer(host_, tensor.device, bytes_of(tensor)), tensor.device, {}, bytes_of(tensor)});
    Kept &kept = kept_.back();
    copy(host_, tensor.device, kept.original.get(), tensor.data, kept.bytes);
    for (const auto &pointers : pointers_) {
        kept.places.push_back(pointers[index]);
    }
}

void Rotation::put_back() {
    for (const Kept &kept : kept_) {
        for (void *place : kept.places) {
            copy(host_, kept.device, place, kept.original.get(), kept.bytes);
        }
    }
}

size_t copies_against(uint64_t cache, uint64_t memory, uint64_t bytes) {
    constexpr uint64_t most = 65536;
    if (bytes == 0) {
        return 1;
    }
    const uint64_t needed = 2 * cache / bytes + 2;
    const uint64_t room = std::max<uint64_t>(memory / 4 / bytes, 1);
    return static_cast<size_t>(std::min({needed, room, most}));
}

} // namespace opdock::plugin_bench
