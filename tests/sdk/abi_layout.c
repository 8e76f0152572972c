/* The golden layout of the ABI: every struct, every field, every number, as plugins out there were compiled.
 *
 * A difference here breaks binaries that exist. A field may be appended: add its line, and raise the STRUCT size. From
 * 1.0 on nothing else may change within a major version. abidiff does not replace this test: it was seen to pass a
 * shifted field.
 *
 * Compiled with -Wpadded, so that no struct has room which only some compilers fill in. Runs on LP64 machines. */
#include <inttypes.h>
#include <stdio.h>

#include "opdock/plugin.h"

typedef struct {
    const char *name; /* of the struct; a field is "struct.field" */
    size_t offset;
    size_t size;
    size_t expected_offset;
    size_t expected_size;
    int64_t is_struct;
} layout_row;

typedef struct {
    const char *name;
    int64_t value;
    int64_t expected;
} constant_row;

#define STRUCT(type, bytes)                                                                                            \
    { #type, 0, sizeof(type), 0, bytes, 1 }
#define FIELD(type, field, at, bytes)                                                                                  \
    { #type "." #field, offsetof(type, field), sizeof(((type *)0)->field), at, bytes, 0 }
#define CONSTANT(name, number)                                                                                         \
    { #name, (int64_t)(name), number }

/* clang-format off */
static const layout_row layout[] = {
    STRUCT(opdock_value, 16),
    FIELD(opdock_value, type, 0, 4),
    FIELD(opdock_value, count, 4, 4),
    FIELD(opdock_value, as, 8, 8),

    STRUCT(opdock_problem, 112),
    FIELD(opdock_problem, struct_size, 0, 4),
    FIELD(opdock_problem, flags, 4, 4),
    FIELD(opdock_problem, n_inputs, 8, 4),
    FIELD(opdock_problem, n_outputs, 12, 4),
    FIELD(opdock_problem, n_tensors, 16, 4),
    FIELD(opdock_problem, n_attributes, 20, 4),
    FIELD(opdock_problem, n_knobs, 24, 4),
    FIELD(opdock_problem, reserved, 28, 4),
    FIELD(opdock_problem, tensors, 32, 8),
    FIELD(opdock_problem, first, 40, 8),
    FIELD(opdock_problem, attributes, 48, 8),
    FIELD(opdock_problem, knobs, 56, 8),
    FIELD(opdock_problem, device, 64, 8),
    FIELD(opdock_problem, user_data, 72, 8),
    FIELD(opdock_problem, device_state, 80, 8),
    FIELD(opdock_problem, plan, 88, 8),
    FIELD(opdock_problem, host, 96, 8),
    FIELD(opdock_problem, host_data, 104, 8),

    STRUCT(opdock_call, 40),
    FIELD(opdock_call, struct_size, 0, 4),
    FIELD(opdock_call, flags, 4, 4),
    FIELD(opdock_call, data, 8, 8),
    FIELD(opdock_call, stream, 16, 8),
    FIELD(opdock_call, workspace, 24, 8),
    FIELD(opdock_call, workspace_size, 32, 8),

    STRUCT(opdock_attribute, 24),
    FIELD(opdock_attribute, name, 0, 8),
    FIELD(opdock_attribute, value, 8, 16),

    STRUCT(opdock_args, 88),
    FIELD(opdock_args, struct_size, 0, 4),
    FIELD(opdock_args, flags, 4, 4),
    FIELD(opdock_args, n_inputs, 8, 4),
    FIELD(opdock_args, n_outputs, 12, 4),
    FIELD(opdock_args, n_attributes, 16, 4),
    FIELD(opdock_args, n_lists, 20, 4),
    FIELD(opdock_args, inputs, 24, 8),
    FIELD(opdock_args, outputs, 32, 8),
    FIELD(opdock_args, attributes, 40, 8),
    FIELD(opdock_args, stream, 48, 8),
    FIELD(opdock_args, list_sizes, 56, 8),
    FIELD(opdock_args, device, 64, 8),
    FIELD(opdock_args, workspace, 72, 8),
    FIELD(opdock_args, workspace_size, 80, 8),

    STRUCT(opdock_host, 72),
    FIELD(opdock_host, struct_size, 0, 4),
    FIELD(opdock_host, abi_major, 4, 4),
    FIELD(opdock_host, abi_minor, 8, 4),
    FIELD(opdock_host, reserved, 12, 4),
    FIELD(opdock_host, host_data, 16, 8),
    FIELD(opdock_host, log, 24, 8),
    FIELD(opdock_host, fail, 32, 8),
    FIELD(opdock_host, get_extension, 40, 8),
    FIELD(opdock_host, call_op, 48, 8),
    FIELD(opdock_host, dim, 56, 8),
    FIELD(opdock_host, device_properties, 64, 8),

    STRUCT(opdock_knob, 56),
    FIELD(opdock_knob, struct_size, 0, 4),
    FIELD(opdock_knob, type, 4, 4),
    FIELD(opdock_knob, name, 8, 8),
    FIELD(opdock_knob, minimum, 16, 8),
    FIELD(opdock_knob, maximum, 24, 8),
    FIELD(opdock_knob, default_value, 32, 8),
    FIELD(opdock_knob, doc, 40, 8),
    FIELD(opdock_knob, choices, 48, 8),

    STRUCT(opdock_vendor, 40),
    FIELD(opdock_vendor, struct_size, 0, 4),
    FIELD(opdock_vendor, flags, 4, 4),
    FIELD(opdock_vendor, name, 8, 8),
    FIELD(opdock_vendor, device_name, 16, 8),
    FIELD(opdock_vendor, dispatch_key, 24, 8),
    FIELD(opdock_vendor, device_query_command, 32, 8),

    STRUCT(opdock_op, 32),
    FIELD(opdock_op, struct_size, 0, 4),
    FIELD(opdock_op, flags, 4, 4),
    FIELD(opdock_op, required_flags, 8, 4),
    FIELD(opdock_op, reserved, 12, 4),
    FIELD(opdock_op, signature, 16, 8),
    FIELD(opdock_op, doc, 24, 8),

    STRUCT(opdock_device_properties, 280),
    FIELD(opdock_device_properties, struct_size, 0, 4),
    FIELD(opdock_device_properties, reserved, 4, 4),
    FIELD(opdock_device_properties, memory, 8, 8),
    FIELD(opdock_device_properties, name, 16, 128),
    FIELD(opdock_device_properties, architecture, 144, 32),
    FIELD(opdock_device_properties, uuid, 176, 48),
    FIELD(opdock_device_properties, driver, 224, 32),
    FIELD(opdock_device_properties, compute_units, 256, 4),
    FIELD(opdock_device_properties, warp_size, 260, 4),
    FIELD(opdock_device_properties, shared_memory, 264, 8),
    FIELD(opdock_device_properties, cache, 272, 8),

    STRUCT(opdock_device, 152),
    FIELD(opdock_device, struct_size, 0, 4),
    FIELD(opdock_device, flags, 4, 4),
    FIELD(opdock_device, required_flags, 8, 4),
    FIELD(opdock_device, dl_device_type, 12, 4),
    FIELD(opdock_device, kind, 16, 8),
    FIELD(opdock_device, stream_type, 24, 8),
    FIELD(opdock_device, user_data, 32, 8),
    FIELD(opdock_device, count, 40, 8),
    FIELD(opdock_device, properties, 48, 8),
    FIELD(opdock_device, make_current, 56, 8),
    FIELD(opdock_device, allocate, 64, 8),
    FIELD(opdock_device, free, 72, 8),
    FIELD(opdock_device, copy, 80, 8),
    FIELD(opdock_device, stream_create, 88, 8),
    FIELD(opdock_device, stream_destroy, 96, 8),
    FIELD(opdock_device, stream_synchronize, 104, 8),
    FIELD(opdock_device, stream_is_capturing, 112, 8),
    FIELD(opdock_device, event_create, 120, 8),
    FIELD(opdock_device, event_destroy, 128, 8),
    FIELD(opdock_device, event_record, 136, 8),
    FIELD(opdock_device, event_elapsed, 144, 8),

    STRUCT(opdock_impl, 168),
    FIELD(opdock_impl, struct_size, 0, 4),
    FIELD(opdock_impl, flags, 4, 4),
    FIELD(opdock_impl, required_flags, 8, 4),
    FIELD(opdock_impl, kind, 12, 4),
    FIELD(opdock_impl, op, 16, 8),
    FIELD(opdock_impl, impl_id, 24, 8),
    FIELD(opdock_impl, vendor, 32, 8),
    FIELD(opdock_impl, device, 40, 8),
    FIELD(opdock_impl, dtypes, 48, 8),
    FIELD(opdock_impl, architectures, 56, 8),
    FIELD(opdock_impl, priority, 64, 4),
    FIELD(opdock_impl, alignment, 68, 4),
    FIELD(opdock_impl, n_knobs, 72, 4),
    FIELD(opdock_impl, tune_version, 76, 4),
    FIELD(opdock_impl, knobs, 80, 8),
    FIELD(opdock_impl, user_data, 88, 8),
    FIELD(opdock_impl, kernel, 96, 8),
    FIELD(opdock_impl, available, 104, 8),
    FIELD(opdock_impl, supports, 112, 8),
    FIELD(opdock_impl, heuristic, 120, 8),
    FIELD(opdock_impl, device_init, 128, 8),
    FIELD(opdock_impl, device_fini, 136, 8),
    FIELD(opdock_impl, plan_create, 144, 8),
    FIELD(opdock_impl, plan_destroy, 152, 8),
    FIELD(opdock_impl, workspace_size, 160, 8),

    STRUCT(opdock_registry, 80),
    FIELD(opdock_registry, struct_size, 0, 4),
    FIELD(opdock_registry, abi_major, 4, 4),
    FIELD(opdock_registry, abi_minor, 8, 4),
    FIELD(opdock_registry, reserved, 12, 4),
    FIELD(opdock_registry, host_data, 16, 8),
    FIELD(opdock_registry, host, 24, 8),
    FIELD(opdock_registry, register_vendor, 32, 8),
    FIELD(opdock_registry, register_device, 40, 8),
    FIELD(opdock_registry, register_op, 48, 8),
    FIELD(opdock_registry, register_impl, 56, 8),
    FIELD(opdock_registry, register_shutdown, 64, 8),
    FIELD(opdock_registry, fail, 72, 8),};

static const constant_row constants[] = {
    CONSTANT(OPDOCK_OK, 0),
    CONSTANT(OPDOCK_UNSUPPORTED, 1),
    CONSTANT(OPDOCK_INVALID_ARGUMENT, 2),
    CONSTANT(OPDOCK_OUT_OF_MEMORY, 3),
    CONSTANT(OPDOCK_FAILED, 4),
    CONSTANT(OPDOCK_FAILED_CLEAN, 5),
    CONSTANT(OPDOCK_DEVICE_LOST, 6),

    CONSTANT(OPDOCK_VALUE_NONE, 0),
    CONSTANT(OPDOCK_VALUE_INT, 1),
    CONSTANT(OPDOCK_VALUE_FLOAT, 2),
    CONSTANT(OPDOCK_VALUE_BOOL, 3),
    CONSTANT(OPDOCK_VALUE_STRING, 4),
    CONSTANT(OPDOCK_VALUE_DTYPE, 5),
    CONSTANT(OPDOCK_VALUE_INTS, 6),

    CONSTANT(OPDOCK_LOG_DEBUG, 0),
    CONSTANT(OPDOCK_LOG_INFO, 1),
    CONSTANT(OPDOCK_LOG_WARNING, 2),
    CONSTANT(OPDOCK_LOG_ERROR, 3),

    CONSTANT(OPDOCK_DL_BOOL, 6),
    CONSTANT(OPDOCK_DL_FLOAT8_E4M3FN, 10),
    CONSTANT(OPDOCK_DL_FLOAT8_E5M2, 12),
    CONSTANT(OPDOCK_F32, 0x12002),
    CONSTANT(OPDOCK_F16, 0x11002),
    CONSTANT(OPDOCK_BF16, 0x11004),
    CONSTANT(OPDOCK_E4M3, 0x1080a),
    CONSTANT(OPDOCK_E5M2, 0x1080c),
    CONSTANT(OPDOCK_I64, 0x14000),
    CONSTANT(OPDOCK_I32, 0x12000),
    CONSTANT(OPDOCK_U8, 0x10801),
    CONSTANT(OPDOCK_BOOL, 0x10806),

    CONSTANT(OPDOCK_KIND_DEFAULT, 1),
    CONSTANT(OPDOCK_KIND_VENDOR, 2),
    CONSTANT(OPDOCK_KIND_REFERENCE, 3),
    CONSTANT(OPDOCK_IMPL_DETERMINISTIC, 1),
    CONSTANT(OPDOCK_IMPL_CAPTURE_SAFE, 2),
    CONSTANT(OPDOCK_IMPL_NEEDS_CONTIGUOUS, 1),
    CONSTANT(OPDOCK_KNOB_INT, 1),
    CONSTANT(OPDOCK_KNOB_BOOL, 2),
    CONSTANT(OPDOCK_KNOB_CHOICE, 3),
    CONSTANT(OPDOCK_DEVICE_ORDERED_ARCHITECTURES, 1),
    CONSTANT(OPDOCK_NOTE_TYPE, 1),
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

int main(void) {
    int differences = 0;
    const layout_row *owner = layout;
    size_t end = 0; /* of the fields of `owner` seen so far */
    for (size_t i = 0; i < COUNT(layout); ++i) {
        const layout_row *row = &layout[i];
        if (row->offset != row->expected_offset || row->size != row->expected_size) {
            printf("%s: offset %zu and %zu bytes, expected offset %zu and %zu bytes\n", row->name, row->offset,
                   row->size, row->expected_offset, row->expected_size);
            ++differences;
        }
        if (row->is_struct) {
            owner = row;
            end = 0;
        } else if (row->offset != end) {
            printf("%s: starts at %zu, and the listed field before it ends at %zu: list every field\n", row->name,
                   row->offset, end);
            ++differences;
        }
        end += row->is_struct ? 0 : row->size;
        if ((i + 1 == COUNT(layout) || layout[i + 1].is_struct) && end != owner->size) {
            printf("%s: has %zu bytes, and its listed fields end at %zu: list every field\n", owner->name, owner->size,
                   end);
            ++differences;
        }
    }
    for (size_t i = 0; i < COUNT(constants); ++i) {
        if (constants[i].value != constants[i].expected) {
            printf("%s: %" PRId64 ", expected %" PRId64 "\n", constants[i].name, constants[i].value,
                   constants[i].expected);
            ++differences;
        }
    }
    printf("%zu rows and %zu constants compared, %d differences\n", COUNT(layout), COUNT(constants), differences);
    return differences != 0;
}
