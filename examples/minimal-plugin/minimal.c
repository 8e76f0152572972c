/* The smallest plugin: relu for f32 on the CPU, in C99. */
#include "opdock/plugin.h"
#include "opdock/standard_ops.h"

/* Who I am: id, version, vendor, devices, needed CPU features. */
OPDOCK_NOTE("minimal", "1.0.0", "minimal", "cpu", "")

/* What I do. The host has checked the call against the signature and, because of OPDOCK_IMPL_NEEDS_CONTIGUOUS, that the
 * elements follow each other. Parameters are numbered in signature order: input is 0, output is 1. */
static opdock_status relu(const opdock_problem *problem, const opdock_call *call) {
    const float *input = (const float *)call->data[0];
    float *output = (float *)call->data[1];
    const int64_t count = opdock_n_elements(problem->tensors[0]);
    int64_t i;

    for (i = 0; i < count; ++i)
        output[i] = input[i] < 0 ? 0 : input[i];
    return OPDOCK_OK;
}

/* What I register. */
OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    opdock_op_declaration op = {0};
    opdock_impl impl = {0};

    op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
    op.signature = OPDOCK_OP_RELU;
    registry->register_op(registry, &op);

    impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
    impl.kind = OPDOCK_KIND_VENDOR;
    impl.required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS;
    impl.op = "relu";
    impl.impl_id = "vendor.minimal";
    impl.device = "cpu";
    impl.dtypes = "f32";
    impl.kernel = relu;
    registry->register_impl(registry, &impl);

    return OPDOCK_OK; /* the host keeps the first error of each call above and reports them all */
}
