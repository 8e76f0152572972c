/* A plugin as written for ABI 1.0, which uses all of 1.0: abi.scale(x, factor) -> y = factor * x. It adds 1000 where
 * anything deviates from what 1.0 promises. */
#include <string.h>

#include <opdock/plugin.h>

OPDOCK_NOTE("abi-worker", "1.0.0", "worker", "cpu", "")

typedef struct {
    double factor;
} work_plan;

static int registered; /* user_data */
static int on_device;  /* device_state */
static work_plan plans[64];
static int n_plans;

static double factor_of(const opdock_problem *problem) {
    return problem->attributes[0].as.f;
}

static opdock_status available(const opdock_host_api *host, void *user_data, DLDevice device) {
    if (user_data != &registered || device.device_type != kDLCPU)
        return host->fail(host, OPDOCK_UNSUPPORTED, "not as it was registered");
    return OPDOCK_OK;
}

static opdock_status supports(const opdock_problem *problem) {
    if (factor_of(problem) < 0)
        return problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, "factor is negative");
    return OPDOCK_OK;
}

static opdock_status heuristic(const opdock_problem *problem, int64_t *knobs) {
    (void)problem;
    knobs[0] = knobs[0] == 4 ? 7 : -1;
    return OPDOCK_OK;
}

static opdock_status device_init(const opdock_host_api *host, void *user_data, DLDevice device, void **state) {
    (void)host;
    (void)user_data;
    (void)device;
    *state = &on_device;
    return OPDOCK_OK;
}

static void device_fini(const opdock_host_api *host, void *user_data, DLDevice device, void *state) {
    (void)host;
    (void)user_data;
    (void)device;
    (void)state;
}

static opdock_status plan_create(const opdock_problem *problem, void **plan) {
    work_plan *made = &plans[n_plans++ % 64];
    made->factor = factor_of(problem);
    *plan = made;
    return OPDOCK_OK;
}

static void plan_destroy(const opdock_host_api *host, void *user_data, DLDevice device, void *plan) {
    (void)host;
    (void)user_data;
    (void)device;
    (void)plan;
}

static opdock_status workspace_size(const opdock_problem *problem, uint64_t *bytes) {
    (void)problem;
    *bytes = 64;
    return OPDOCK_OK;
}

/* True if a kernel is given everything that 1.0 promises. */
static int is_as_promised(const opdock_problem *problem, const opdock_call *call) {
    const DLTensor *x = problem->tensors[0];
    return OPDOCK_HAS_FIELD(problem, opdock_problem, host_data) &&
           OPDOCK_HAS_FIELD(call, opdock_call, workspace_size) && problem->n_inputs == 1 && problem->n_outputs == 1 &&
           problem->n_tensors == 2 && problem->n_attributes == 1 && problem->n_knobs == 1 &&
           problem->tensor_offsets[0] == 0 && problem->tensor_offsets[1] == 1 && problem->tensor_offsets[2] == 2 &&
           problem->attributes[0].type == OPDOCK_VALUE_FLOAT && problem->knobs[0] == 7 &&
           problem->user_data == &registered && problem->device_state == &on_device && problem->plan != NULL &&
           problem->host->abi_major == 1 && problem->host->dim(problem, "n") == x->shape[x->ndim - 1] &&
           problem->host->get_extension(problem->host, "abi.none") == NULL && call->n_data == 2 &&
           call->workspace != NULL && call->workspace_size >= 64 && (uintptr_t)call->workspace % 256 == 0;
}

static opdock_status scale(const opdock_problem *problem, const opdock_call *call) {
    const float *x = (const float *)call->data[0];
    float *y = (float *)call->data[1];
    const int64_t count = opdock_n_elements(problem->tensors[0]);
    const int promised = is_as_promised(problem, call);
    int64_t i;
    if (promised)
        memset(call->workspace, 0xff, 64);
    for (i = 0; i < count; ++i)
        y[i] = (float)(promised ? ((const work_plan *)problem->plan)->factor * x[i] : x[i] + 1000);
    return OPDOCK_OK;
}

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    opdock_op_declaration op = {0};
    opdock_vendor vendor = {0};
    opdock_impl impl = {0};
    opdock_knob block = {0};
    const opdock_knob *knobs[1];

    op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
    op.signature = "abi.scale(x: T[..., n], *, factor: float = 2.0) -> (y: T[..., n])";
    registry->register_op(registry, &op);

    vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
    vendor.name = "worker";
    registry->register_vendor(registry, &vendor);

    block.struct_size = OPDOCK_STRUCT_SIZE(opdock_knob, choices);
    block.type = OPDOCK_KNOB_INT;
    block.name = "block";
    block.minimum = 1;
    block.maximum = 8;
    block.default_value = 4;
    knobs[0] = &block;

    impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
    impl.flags = OPDOCK_IMPL_DETERMINISTIC;
    impl.required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS;
    impl.kind = OPDOCK_KIND_VENDOR;
    impl.op = "abi.scale";
    impl.impl_id = "vendor.worker";
    impl.device = "cpu";
    impl.dtypes = "f32";
    impl.n_knobs = 1;
    impl.knobs = knobs;
    impl.user_data = &registered;
    impl.kernel = scale;
    impl.available = available;
    impl.supports = supports;
    impl.heuristic = heuristic;
    impl.device_init = device_init;
    impl.device_fini = device_fini;
    impl.plan_create = plan_create;
    impl.plan_destroy = plan_destroy;
    impl.workspace_size = workspace_size;
    registry->register_impl(registry, &impl);
    return OPDOCK_OK;
}
