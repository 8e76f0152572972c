// Declares the part of torch's stable C ABI that is used (torch 2.10 and later: torch/csrc/stable/c/shim.h and
// torch/csrc/inductor/aoti_torch/c/shim.h). Its functions are looked up in the running process, so that one binary
// serves every torch, and building needs none.
#pragma once

#include <cstdint>

namespace opdock::python::torch_abi {

// An argument or result of a kernel: a number's bits, a handle, or, for a present optional, a pointer to such a value,
// allocated with new. A kernel owns the handles and pointers of its arguments; the caller owns those of the results.
using Value = uint64_t;
using Kernel = void (*)(Value *stack, uint64_t n_arguments, uint64_t n_results);

struct Tensor;
struct List;
struct String;
struct Library;
struct StreamGuard;

constexpr uint64_t version = (2ULL << 56) | (10ULL << 48); // version of the calling conventions: 2.10

// All return 0, or another number on failure.
struct Api {
    int32_t (*tensor_data)(Tensor *tensor, void **data);
    int32_t (*tensor_ndim)(Tensor *tensor, int64_t *ndim);
    int32_t (*tensor_sizes)(Tensor *tensor, int64_t **sizes);
    int32_t (*tensor_strides)(Tensor *tensor, int64_t **strides);
    int32_t (*tensor_dtype)(Tensor *tensor, int32_t *dtype);
    int32_t (*tensor_device_type)(Tensor *tensor, int32_t *type);
    int32_t (*tensor_device_index)(Tensor *tensor, int32_t *index);
    int32_t (*tensor_delete)(Tensor *tensor);
    int32_t (*empty_strided)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                             int32_t device_type, int32_t device_index, Tensor **made);
    int32_t (*copy)(Tensor *to, Tensor *from, int32_t non_blocking);
    int32_t (*list_new)(size_t capacity, List **made);
    int32_t (*list_size)(List *list, size_t *size);
    int32_t (*list_get)(List *list, size_t index, Value *value); // the caller owns the value
    int32_t (*list_push)(List *list, Value value);
    int32_t (*list_delete)(List *list);
    int32_t (*string_length)(String *string, size_t *length);
    int32_t (*string_data)(String *string, const char **data);
    int32_t (*string_delete)(String *string);
    int32_t (*library_implementing)(const char *space, const char *key, const char *file, uint32_t line,
                                    Library **made);
    int32_t (*library_implement)(Library *library, const char *name, Kernel kernel, uint64_t version);
    // Null without CUDA and HIP.
    int32_t (*cuda_stream)(int32_t device, void **stream);
    int32_t (*cuda_stream_enter)(void *stream, int32_t device, StreamGuard **guard);
    int32_t (*cuda_stream_leave)(StreamGuard *guard);
    bool cuda_is_hip;
};

// The functions of the imported torch. Throws std::runtime_error if there is none or if it is older.
const Api &api();

} // namespace opdock::python::torch_abi
