// Declares the used part of XLA's C API for custom calls (version 0.x: xla/ffi/api/c_api.h); building needs no JAX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opdock::python::xla {

struct ExtensionBase {
    size_t struct_size;
    int32_t type; // 1: metadata
    ExtensionBase *next;
};

struct ApiVersion {
    size_t struct_size;
    ExtensionBase *extensions;
    int major;
    int minor;
};

// XLA requests it with a call frame that has no arguments.
struct Metadata {
    size_t struct_size;
    ApiVersion version;
    uint32_t traits; // 1: every call does the same work on the device, so it may be recorded
};

struct MetadataExtension {
    ExtensionBase base;
    Metadata *metadata;
};

struct Error;
struct Context;

struct ErrorCreateArgs {
    size_t struct_size;
    ExtensionBase *extensions;
    const char *message;
    int32_t code; // 3 invalid argument, 9 failed precondition
};

struct StreamGetArgs {
    size_t struct_size;
    ExtensionBase *extensions;
    Context *context;
    void *stream; // out
};

struct DeviceOrdinalGetArgs {
    size_t struct_size;
    ExtensionBase *extensions;
    Context *context;
    int32_t ordinal; // out
};

struct Api {
    size_t struct_size;
    ExtensionBase *extensions;
    ApiVersion version;
    const void *internal;
    Error *(*error_create)(ErrorCreateArgs *args);
    const void *error_get_message;
    const void *error_destroy;
    const void *handler_register;
    Error *(*stream_get)(StreamGetArgs *args);
    const void *others[12]; // type registration, state, memory, threads, futures, run id
    Error *(*device_ordinal_get)(DeviceOrdinalGetArgs *args);
};

struct Buffer {
    size_t struct_size;
    ExtensionBase *extensions;
    int32_t dtype; // an xla::PrimitiveType
    void *data;
    int64_t rank;
    int64_t *dims;
};

struct Buffers {
    size_t struct_size;
    ExtensionBase *extensions;
    int64_t size;
    int32_t *types; // 1: Buffer
    void **items;
};

struct Text {
    const char *data;
    size_t size;
};

struct Scalar {
    int32_t dtype;
    void *value;
};

struct Array {
    int32_t dtype;
    size_t size;
    void *data;
};

enum : int32_t { attribute_array = 1, attribute_scalar = 3, attribute_text = 4 };

struct Attributes {
    size_t struct_size;
    ExtensionBase *extensions;
    int64_t size;
    int32_t *types;
    Text **names;
    void **items; // Array, Scalar or Text
};

struct CallFrame {
    size_t struct_size;
    ExtensionBase *extensions;
    const Api *api;
    Context *context;
    int32_t stage; // 3: execute
    Buffers arguments;
    Buffers results;
    Attributes attributes;
};

} // namespace opdock::python::xla
