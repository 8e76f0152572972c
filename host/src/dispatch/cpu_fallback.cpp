#include "dispatch/cpu_fallback.hpp"

#include <algorithm>
#include <array>

#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

constexpr DLDevice cpu{kDLCPU, 0};

uint64_t count_elements(const DLTensor &tensor) {
    uint64_t count = 1;
    for (int32_t d = 0; d < tensor.ndim; ++d) {
        count *= static_cast<uint64_t>(tensor.shape[d]);
    }
    return count;
}

} // namespace

CpuCopies::CpuCopies(const Devices &devices, const Signature &signature, const Bound &bound, const opdock_args &args)
    : device_(devices, bound.device, args.stream), cpu_(devices, cpu, nullptr), tensors_(bound.tensors), args_(args) {
    const DeviceInUse current(device_);
    copies_.reserve(tensors_.size()); // args_ points to these tensors
    memory_.reserve(tensors_.size());
    const size_t n_inputs = signature.inputs.size();
    for (size_t p = 0; p + 1 < bound.first.size(); ++p) {
        const Parameter &parameter = signature.parameter(p);
        for (uint32_t i = bound.first[p]; i < bound.first[p + 1]; ++i) {
            const DLTensor *theirs = tensors_[i];
            if (theirs == nullptr || parameter.host) {
                continue;
            }
            Extent extent{theirs, {}, false, 0, 0};
            measure(signature, extent);
            const uint64_t bytes = extent.end - extent.begin;
            const bool is_input = p < n_inputs;
            auto *memory = static_cast<std::byte *>(memory_.emplace_back(cpu_, bytes).get());
            Copy &copy =
                copies_.emplace_back(Copy{*theirs, theirs, bytes == count_elements(*theirs) * bytes_of(theirs->dtype),
                                          !is_input || parameter.mut});
            copy.tensor.device = cpu;
            copy.tensor.byte_offset = 0;
            copy.tensor.data = nullptr;
            if (!extent.empty()) {
                auto *first = static_cast<std::byte *>(first_element(theirs));
                auto *begin = reinterpret_cast<std::byte *>(extent.begin); // NOLINT(performance-no-int-to-ptr)
                copy.tensor.data = memory + (first - begin);
                if (is_input) {
                    device_.copy(memory, cpu, begin, bound.device, bytes);
                }
            }
            tensors_[i] = &copy.tensor;
        }
    }
    device_.synchronize();
    args_.struct_size = sizeof args_;
    args_.n_inputs = bound.first[n_inputs];
    args_.n_outputs = static_cast<uint32_t>(tensors_.size()) - args_.n_inputs;
    args_.inputs = tensors_.data();
    args_.outputs = tensors_.data() + args_.n_inputs;
    args_.stream = nullptr;
    args_.device = cpu;
    args_.workspace = nullptr;
    args_.workspace_size = 0;
}

void CpuCopies::copy_back() const {
    const DeviceInUse current(device_);
    for (const Copy &copy : copies_) {
        if (!copy.written || copy.tensor.data == nullptr) {
            continue;
        }
        const DLTensor &tensor = copy.tensor;
        const auto bytes = static_cast<int64_t>(bytes_of(tensor.dtype));
        auto *to = static_cast<std::byte *>(first_element(copy.theirs));
        const auto *from = static_cast<const std::byte *>(tensor.data);
        // Copies the packed trailing dims in one piece.
        int32_t outer = tensor.ndim;
        int64_t run = 1;
        while (outer > 0 &&
               (tensor.strides == nullptr || tensor.strides[outer - 1] == run || tensor.shape[outer - 1] == 1)) {
            run *= tensor.shape[--outer];
        }
        if (copy.is_dense) { // in any order of dims
            int64_t lowest = 0;
            for (int32_t d = 0; tensor.strides != nullptr && d < tensor.ndim; ++d) {
                lowest += std::min<int64_t>(0, tensor.strides[d] * (tensor.shape[d] - 1));
            }
            device_.copy(to + lowest * bytes, copy.theirs->device, from + lowest * bytes, cpu,
                         count_elements(tensor) * static_cast<uint64_t>(bytes));
            continue;
        }
        std::array<int64_t, OPDOCK_MAX_RANK> index{};
        for (int32_t d = outer; d >= 0;) {
            int64_t offset = 0;
            for (int32_t i = 0; i < outer; ++i) {
                offset += index.at(static_cast<size_t>(i)) * tensor.strides[i];
            }
            device_.copy(to + offset * bytes, copy.theirs->device, from + offset * bytes, cpu,
                         static_cast<uint64_t>(run * bytes));
            for (d = outer - 1; d >= 0 && ++index.at(static_cast<size_t>(d)) == tensor.shape[d]; --d) {
                index.at(static_cast<size_t>(d)) = 0;
            }
        }
    }
    device_.synchronize();
}

} // namespace opdock::core
