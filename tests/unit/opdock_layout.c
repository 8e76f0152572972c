/* The golden layout of opdock.h: every struct, field and number, as existing programs were compiled with them.
 * tests/sdk/abi_layout.c covers the plugin ABI's types that such programs pass. */
#include "opdock/opdock.h"

#include "../sdk/layout_table.h"

/* clang-format off */
static const layout_row layout[] = {
    STRUCT(opdock_options, 88),
    FIELD(opdock_options, struct_size, 0, 4),
    FIELD(opdock_options, flags, 4, 4),
    FIELD(opdock_options, n_modules, 8, 4),
    FIELD(opdock_options, reserved, 12, 4),
    FIELD(opdock_options, prefix, 16, 8),
    FIELD(opdock_options, modules, 24, 8),
    FIELD(opdock_options, log, 32, 8),
    FIELD(opdock_options, log_user_data, 40, 8),
    FIELD(opdock_options, allocate_workspace, 48, 8),
    FIELD(opdock_options, free_workspace, 56, 8),
    FIELD(opdock_options, workspace_user_data, 64, 8),
    FIELD(opdock_options, get_extension, 72, 8),
    FIELD(opdock_options, extension_user_data, 80, 8),

    STRUCT(opdock_target, 8),
    FIELD(opdock_target, call, 0, 8),

    STRUCT(opdock_op, 16),
    FIELD(opdock_op, index, 0, 4),
    FIELD(opdock_op, reserved, 4, 4),
    FIELD(opdock_op, target, 8, 8),

    STRUCT(opdock_tensor_spec, 32),
    FIELD(opdock_tensor_spec, name, 0, 8),
    FIELD(opdock_tensor_spec, shape, 8, 8),
    FIELD(opdock_tensor_spec, ndim, 16, 4),
    FIELD(opdock_tensor_spec, dtype, 20, 4),
    FIELD(opdock_tensor_spec, optional, 24, 4),
    FIELD(opdock_tensor_spec, parameter, 28, 4),

    STRUCT(opdock_setting, 16),
    FIELD(opdock_setting, name, 0, 8),
    FIELD(opdock_setting, value, 8, 8),

    STRUCT(opdock_prepared, 40),
    FIELD(opdock_prepared, struct_size, 0, 4),
    FIELD(opdock_prepared, n_data, 4, 4),
    FIELD(opdock_prepared, kernel, 8, 8),
    FIELD(opdock_prepared, problem, 16, 8),
    FIELD(opdock_prepared, workspace_size, 24, 8),
    FIELD(opdock_prepared, alignment, 32, 8),

    STRUCT(opdock_tune_options, 48),
    FIELD(opdock_tune_options, struct_size, 0, 4),
    FIELD(opdock_tune_options, strategy, 4, 4),
    FIELD(opdock_tune_options, flags, 8, 4),
    FIELD(opdock_tune_options, reserved, 12, 4),
    FIELD(opdock_tune_options, impl_id, 16, 8),
    FIELD(opdock_tune_options, budget, 24, 8),
    FIELD(opdock_tune_options, progress, 32, 8),
    FIELD(opdock_tune_options, user_data, 40, 8),
};

static const constant_row constants[] = {
    CONSTANT(OPDOCK_UNKNOWN_OP, 100),
    CONSTANT(OPDOCK_NO_IMPLEMENTATION, 101),
    CONSTANT(OPDOCK_ALL_DROPPED, 102),
    CONSTANT(OPDOCK_ALL_FAILED, 103),
    CONSTANT(OPDOCK_NOT_PREPARED, 104),
    CONSTANT(OPDOCK_INVALID_POLICY, 105),
    CONSTANT(OPDOCK_LOAD_FAILED, 106),
    CONSTANT(OPDOCK_INTERNAL_ERROR, 107),
    CONSTANT(OPDOCK_INVALID_TUNE_FILE, 108),
    CONSTANT(OPDOCK_OPEN_RESCAN, 1),
    CONSTANT(OPDOCK_MAX_RANK, 8),
    CONSTANT(OPDOCK_TUNE_HALVING, 0),
    CONSTANT(OPDOCK_TUNE_EXHAUSTIVE, 1),
    CONSTANT(OPDOCK_TUNE_COLD, 1),
    CONSTANT(OPDOCK_TUNE_DRY_RUN, 2),
    CONSTANT(OPDOCK_TUNE_AGAIN, 4),
};
/* clang-format on */

int main(void) {
    return compare_layout(layout, COUNT(layout), constants, COUNT(constants));
}
