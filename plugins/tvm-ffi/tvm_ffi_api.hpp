// The part of tvm-ffi's C interface that the plugin uses, so that building needs no header of tvm-ffi. It is the
// interface of libtvm_ffi.so since 0.1.0; tests/test_tvm_ffi_api.cpp compares it with that header if installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include <dlpack/dlpack.h>

namespace tvm_ffi {

// Type of a value. Numbers from `object` on are references to an Object.
enum TypeIndex : std::int32_t {
    type_none = 0,
    type_int = 1,
    type_bool = 2,
    type_float = 3,
    type_dtype = 5,
    type_tensor = 7,   // a DLTensor *, borrowed
    type_raw_text = 8, // NUL-terminated, borrowed
    type_object = 64,
};

using Handle = void *; // to an object

// Value{} is None.
struct Value {
    std::int32_t type;
    std::uint32_t padding; // 0
    union {
        std::int64_t integer;
        double real;
        const char *text;
        const DLTensor *tensor;
        DLDataType dtype;
        Handle object;
    };
};

struct Bytes {
    const char *data;
    std::size_t size;
};

// Header of all objects.
struct Object {
    std::uint64_t reference_counts;
    std::int32_t type;
    std::uint32_t padding;
    void (*deleter)(void *self, int flags);
};

// An error object. More fields follow.
struct ErrorObject {
    Object header;
    Bytes kind; // "ValueError"
    Bytes message;
    Bytes backtrace;
};

struct Version {
    std::uint32_t major, minor, patch;
};

// The functions, named without their prefix TVMFFI. Those that return an int return 0, or leave an error for
// error_move_from_raised.
struct Functions {
    void (*get_version)(Version *);
    int (*function_get_global)(const Bytes *name, Handle *function); // null if there is none
    int (*function_call)(Handle function, const Value *arguments, std::int32_t count, Value *result);
    void (*error_move_from_raised)(Handle *error);
    int (*object_dec_ref)(Handle);
    // Sets the stream of the calling thread. `original` may be null.
    int (*env_set_stream)(std::int32_t device_type, std::int32_t device_id, void *stream, void **original);
};

} // namespace tvm_ffi
