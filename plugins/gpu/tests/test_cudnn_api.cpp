// Compares cudnn_api.hpp with NVIDIA's header, if that is installed: each number that both name must be the same.
#if __has_include(<cudnn_graph.h>) && __has_include(<cuda_runtime_api.h>)
#include <cudnn_graph.h>

#include "cudnn_api.hpp"

namespace {

template<class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
    return static_cast<int>(ours) == static_cast<int>(theirs);
}

} // namespace

namespace gpu::cudnn {

static_assert(CUDNN_MAJOR == 9);

static_assert(same(host_allocation_failed, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) &&
              same(device_allocation_failed, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) &&
              same(not_supported * 1000, CUDNN_STATUS_NOT_SUPPORTED) &&
              same(internal_error * 1000, CUDNN_STATUS_INTERNAL_ERROR) &&
              same(execution_failed * 1000, CUDNN_STATUS_EXECUTION_FAILED));

static_assert(same(DataType::f32, CUDNN_DATA_FLOAT) && same(DataType::f16, CUDNN_DATA_HALF) &&
              same(DataType::i32, CUDNN_DATA_INT32) && same(DataType::bf16, CUDNN_DATA_BFLOAT16) &&
              same(DataType::boolean, CUDNN_DATA_BOOLEAN));

static_assert(same(PointwiseMode::add, CUDNN_POINTWISE_ADD) && same(PointwiseMode::mul, CUDNN_POINTWISE_MUL) &&
              same(PointwiseMode::div, CUDNN_POINTWISE_DIV) && same(PointwiseMode::sub, CUDNN_POINTWISE_SUB) &&
              same(PointwiseMode::exp, CUDNN_POINTWISE_EXP) && same(PointwiseMode::log, CUDNN_POINTWISE_LOG) &&
              same(PointwiseMode::identity, CUDNN_POINTWISE_IDENTITY) &&
              same(PointwiseMode::greater, CUDNN_POINTWISE_CMP_GT) &&
              same(PointwiseMode::greater_or_equal, CUDNN_POINTWISE_CMP_GE) &&
              same(PointwiseMode::index, CUDNN_POINTWISE_GEN_INDEX) &&
              same(PointwiseMode::select, CUDNN_POINTWISE_BINARY_SELECT));

static_assert(same(Reduction::add, CUDNN_REDUCE_TENSOR_ADD) && same(Reduction::max, CUDNN_REDUCE_TENSOR_MAX) &&
              same(HeuristicMode::a, CUDNN_HEUR_MODE_A));

static_assert(same(Type::handle, CUDNN_TYPE_HANDLE) && same(Type::data_type, CUDNN_TYPE_DATA_TYPE) &&
              same(Type::boolean, CUDNN_TYPE_BOOLEAN) && same(Type::i64, CUDNN_TYPE_INT64) &&
              same(Type::f32, CUDNN_TYPE_FLOAT) && same(Type::pointer, CUDNN_TYPE_VOID_PTR) &&
              same(Type::heuristic_mode, CUDNN_TYPE_HEUR_MODE) &&
              same(Type::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE) &&
              same(Type::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR) &&
              same(Type::reduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE));

static_assert(same(Kind::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR) &&
              same(Kind::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) &&
              same(Kind::heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) &&
              same(Kind::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) &&
              same(Kind::operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) &&
              same(Kind::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) &&
              same(Kind::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) &&
              same(Kind::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR) &&
              same(Kind::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR) &&
              same(Kind::operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) &&
              same(Kind::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR) &&
              same(Kind::operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) &&
              same(Kind::operation_reshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR));

static_assert(same(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE) &&
              same(Attribute::pointwise_math_type, CUDNN_ATTR_POINTWISE_MATH_PREC) &&
              same(Attribute::pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS) &&
              same(Attribute::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE) &&
              same(Attribute::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) &&
              same(Attribute::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS) &&
              same(Attribute::plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) &&
              same(Attribute::plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) &&
              same(Attribute::operation_pointwise_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR) &&
              same(Attribute::operation_pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) &&
              same(Attribute::operation_pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) &&
              same(Attribute::operation_pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC) &&
              same(Attribute::operation_pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC) &&
              same(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS));

static_assert(same(Attribute::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) &&
              same(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE) &&
              same(Attribute::tensor_dims, CUDNN_ATTR_TENSOR_DIMENSIONS) &&
              same(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES) &&
              same(Attribute::tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID) &&
              same(Attribute::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
              same(Attribute::tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
              same(Attribute::pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) &&
              same(Attribute::pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) &&
              same(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));

static_assert(same(Attribute::matmul_math_type, CUDNN_ATTR_MATMUL_COMP_TYPE) &&
              same(Attribute::operation_matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC) &&
              same(Attribute::operation_matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC) &&
              same(Attribute::operation_matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC) &&
              same(Attribute::operation_matmul_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC) &&
              same(Attribute::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR) &&
              same(Attribute::reduction_math_type, CUDNN_ATTR_REDUCTION_COMP_TYPE) &&
              same(Attribute::operation_reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC) &&
              same(Attribute::operation_reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC) &&
              same(Attribute::operation_reduction_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC) &&
              same(Attribute::operation_reshape_x, CUDNN_ATTR_OPERATION_RESHAPE_XDESC) &&
              same(Attribute::operation_reshape_y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));

} // namespace gpu::cudnn
#endif
