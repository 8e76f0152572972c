#include "memory.hpp"

#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "gil.hpp"

namespace opdock::python {

struct Memory::Block {
    std::shared_ptr<Host> host;
    DLDevice device{};
    void *data = nullptr;
    DLDataType dtype{};
    std::vector<int64_t> shape;

    Block() = default;
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    ~Block() { static_cast<void>(opdock_device_free(host->c(), device, nullptr, data)); }
};

namespace {

// The contents of a capsule of either form; its deleter frees them.
template<class Managed>
struct Export {
    Managed managed{};
    std::shared_ptr<const void> keeps;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides; // older consumers require strides
};

template<class Managed>
nb::object export_as(const char *name, const DLTensor &tensor, std::shared_ptr<const void> keeps) {
    auto one = std::make_unique<Export<Managed>>();
    one->keeps = std::move(keeps);
    one->shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    one->strides.assign(one->shape.size(), 1);
    for (size_t d = one->shape.size(); d-- > 1;) {
        one->strides[d - 1] = one->strides[d] * one->shape[d];
    }
    DLTensor &described = [&]() -> DLTensor & {
        if constexpr (std::is_same_v<Managed, ManagedTensor>) {
            one->managed.version = {1, 0};
            one->managed.manager = one.get();
            return one->managed.tensor;
        } else {
            one->managed.manager_ctx = one.get();
            return one->managed.dl_tensor;
        }
    }();
    described = tensor;
    described.shape = one->shape.data();
    described.strides = one->strides.data();
    one->managed.deleter = [](Managed *self) {
        if constexpr (std::is_same_v<Managed, ManagedTensor>) {
            delete static_cast<Export<Managed> *>(self->manager);
        } else {
            delete static_cast<Export<Managed> *>(self->manager_ctx);
        }
    };
    // A consumer renames the capsule and then calls the deleter itself.
    PyObject *capsule = PyCapsule_New(&one->managed, name, [](PyObject *self) {
        const char *now = PyCapsule_GetName(self);
        if (now != nullptr && std::string_view(now).substr(0, 4) != "used") {
            auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(self, now));
            managed->deleter(managed);
        }
    });
    if (capsule == nullptr) {
        throw nb::python_error();
    }
    static_cast<void>(one.release());
    return nb::steal(capsule);
}

} // namespace

Memory::Memory(std::shared_ptr<Host> host, DLDataType dtype, std::span<const int64_t> shape, DLDevice device) {
    auto block = std::make_shared<Block>();
    block->host = std::move(host);
    block->device = device;
    block->dtype = dtype;
    block->shape.assign(shape.begin(), shape.end());
    uint64_t bytes = (uint64_t{dtype.bits} * dtype.lanes + 7) / 8;
    for (const int64_t size : shape) {
        bytes *= static_cast<uint64_t>(size);
    }
    without_gil([&] { detail::check(opdock_device_allocate(block->host->c(), device, nullptr, bytes, &block->data)); });
    block_ = std::move(block);
}

DLTensor Memory::tensor() const {
    DLTensor tensor{};
    tensor.data = block_->data;
    tensor.device = block_->device;
    tensor.ndim = static_cast<int32_t>(block_->shape.size());
    tensor.dtype = block_->dtype;
    tensor.shape = block_->shape.data();
    return tensor;
}

nb::object Memory::dlpack(nb::handle max_version) const {
    if (block_->device.device_type != kDLCPU) {
        without_gil([&] { detail::check(opdock_device_synchronize(block_->host->c(), block_->device, nullptr)); });
    }
    const bool takes_versions = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
    return takes_versions ? export_as<ManagedTensor>("dltensor_versioned", tensor(), block_)
                          : export_as<DLManagedTensor>("dltensor", tensor(), block_);
}

nb::tuple Memory::dlpack_device() const {
    return nb::make_tuple(static_cast<int>(block_->device.device_type), block_->device.device_id);
}

} // namespace opdock::python
