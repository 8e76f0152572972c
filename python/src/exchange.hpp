// Declares the parts of DLPack 1.3 that the dlpack.h of older systems lacks: versioned tensors, and the table of
// functions by which a library hands over tensors without a Python call (https://dmlc.github.io/dlpack, python_spec).
// Layouts are frozen.
#pragma once

#include <cstdint>

#include <dlpack/dlpack.h>

namespace opdock::python {

struct PackVersion {
    uint32_t major;
    uint32_t minor;
};

constexpr uint64_t pack_read_only = 1; // a flag of ManagedTensor

// DLManagedTensorVersioned
struct ManagedTensor {
    PackVersion version;
    void *manager;
    void (*deleter)(ManagedTensor *self);
    uint64_t flags;
    DLTensor tensor;
};

// DLPackExchangeAPI. Functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
    PackVersion version;
    ExchangeApi *previous;
    int (*allocate)(DLTensor *prototype, ManagedTensor **out, void *error,
                    void (*set_error)(void *error, const char *kind, const char *message));
    int (*own)(void *object, ManagedTensor **out);
    int (*to_object)(ManagedTensor *tensor, void **object);
    int (*borrow)(void *object, DLTensor *out); // may be null
    int (*current_stream)(DLDeviceType type, int32_t index, void **stream);
};

} // namespace opdock::python
