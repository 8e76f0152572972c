// The part of cuDNN 9's C interface that is used, so that building needs no header of NVIDIA's. It is stable while the
// library is named libcudnn.so.9; tests/test_cudnn_api.cpp compares it with the header where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpu::cudnn {

using Handle = struct cudnnContext *;
using Descriptor = void *;
using Status = int; // 0, or an error whose thousands are its category

enum StatusCategory : Status { not_supported = 3, internal_error = 4, execution_failed = 5 };
enum StatusCode : Status { host_allocation_failed = 4003, device_allocation_failed = 4004 };

enum class DataType : int { f32 = 0, f16 = 2, i32 = 4, bf16 = 9, boolean = 11 };

enum class PointwiseMode : int {
    add = 0,
    mul = 1,
    div = 6,
    sub = 9,
    exp = 13,
    log = 15,
    identity = 21,
    greater = 302,
    greater_or_equal = 303,
    index = 501,
    select = 601,
};

enum class Reduction : int { add = 0, max = 3 };

enum class HeuristicMode : int { a = 3 };

// The type of an attribute's value.
enum class Type : int {
    handle = 0,
    data_type = 1,
    boolean = 2,
    i64 = 3,
    f32 = 4,
    pointer = 6,
    heuristic_mode = 8,
    pointwise_mode = 14,
    descriptor = 15,
    reduction = 18,
};

enum class Kind : int {
    pointwise = 0,
    engine_config = 3,
    heuristics = 4,
    execution_plan = 5,
    operation_pointwise = 13,
    operation_graph = 15,
    variant_pack = 16,
    tensor = 17,
    matmul = 18,
    operation_matmul = 19,
    reduction = 21,
    operation_reduction = 22,
    operation_reshape = 31,
};

enum class Attribute : int {
    pointwise_mode = 0,
    pointwise_math_type = 1,
    pointwise_axis = 9,
    heuristics_mode = 200,
    heuristics_graph = 201,
    heuristics_results = 202,
    plan_handle = 400,
    plan_engine_config = 401,
    plan_workspace_size = 402,
    operation_pointwise_descriptor = 750,
    operation_pointwise_x = 751,
    operation_pointwise_b = 752,
    operation_pointwise_y = 753,
    operation_pointwise_t = 758,
    graph_handle = 800,
    graph_operations = 801,
    tensor_alignment = 900,
    tensor_data_type = 901,
    tensor_dims = 902,
    tensor_strides = 903,
    tensor_id = 906,
    tensor_is_virtual = 907,
    tensor_is_by_value = 908,
    pack_ids = 1000,
    pack_pointers = 1001,
    pack_workspace = 1003,
    matmul_math_type = 1500,
    operation_matmul_a = 1520,
    operation_matmul_b = 1521,
    operation_matmul_c = 1522,
    operation_matmul_descriptor = 1523,
    reduction_operator = 1600,
    reduction_math_type = 1601,
    operation_reduction_x = 1610,
    operation_reduction_y = 1611,
    operation_reduction_descriptor = 1612,
    operation_reshape_x = 2200,
    operation_reshape_y = 2201,
};

// The functions, named without the prefixes cudnn and cudnnBackend. A stream is a cudaStream_t.
struct Functions {
    size_t (*get_version)();
    const char *(*get_error_string)(Status);
    void (*get_last_error_string)(char *message, size_t size);
    Status (*create)(Handle *);
    Status (*destroy)(Handle);
    Status (*set_stream)(Handle, void *stream);
    Status (*create_descriptor)(Kind, Descriptor *);
    Status (*destroy_descriptor)(Descriptor);
    Status (*finalize)(Descriptor);
    Status (*set_attribute)(Descriptor, Attribute, Type, int64_t count, const void *values);
    Status (*get_attribute)(Descriptor, Attribute, Type, int64_t most, int64_t *count, void *values);
    Status (*execute)(Handle, Descriptor plan, Descriptor variant_pack);
};

} // namespace gpu::cudnn
