/* A plugin that registers one of each thing, with every field set: the fullest transcript there is. Only the fuzz
 * targets want one; their seeds are made from it. */
#include <opdock/plugin.h>

OPDOCK_NOTE("everything", "1.0.0", "acme", "cpu,npu", "")

static opdock_status work(const opdock_problem *problem, const opdock_call *call) {
    (void)problem;
    (void)call;
    return OPDOCK_OK;
}

static opdock_status ask(const opdock_problem *problem) {
    (void)problem;
    return OPDOCK_OK;
}

static opdock_status available(const opdock_host *host, void *user_data, DLDevice device) {
    (void)host;
    (void)user_data;
    (void)device;
    return OPDOCK_OK;
}

static opdock_status workspace_size(const opdock_problem *problem, uint64_t *bytes) {
    (void)problem;
    *bytes = 0;
    return OPDOCK_OK;
}

static opdock_status heuristic(const opdock_problem *problem, int64_t *knobs) {
    (void)problem;
    (void)knobs;
    return OPDOCK_OK;
}

static void shut_down(void *user_data) {
    (void)user_data;
}

static opdock_status count(const opdock_host *host, void *user_data, int32_t *devices) {
    (void)host;
    (void)user_data;
    *devices = 0;
    return OPDOCK_OK;
}

/* Lacks all functions but one, so the host has something to say. */
static void register_device(opdock_registry *registry) {
    opdock_device device = {0};
    device.struct_size = OPDOCK_STRUCT_SIZE(opdock_device, event_elapsed);
    device.flags = OPDOCK_DEVICE_ORDERED_ARCHITECTURES;
    device.dl_device_type = kDLExtDev;
    device.kind = "npu";
    device.stream_type = "npuStream_t";
    device.count = count;
    registry->register_device(registry, &device);
}

static void register_impl(opdock_registry *registry) {
    static const opdock_knob block = {OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_INT, "block", 1, 64, 8, "rows"};
    static const opdock_knob stream = {OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_BOOL, "stream", 0, 1, 0, NULL};
    static const opdock_knob *const knobs[] = {&block, &stream};
    opdock_impl impl = {0};
    impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
    impl.flags = OPDOCK_IMPL_DETERMINISTIC;
    impl.kind = OPDOCK_KIND_VENDOR;
    impl.op = "acme.everything";
    impl.impl_id = "vendor.everything";
    impl.vendor = "acme";
    impl.device = "npu";
    impl.dtypes = "f32|bf16";
    impl.architectures = "np_10+|np_12a";
    impl.priority = -3;
    impl.alignment = 64;
    impl.n_knobs = 2;
    impl.tune_version = 7;
    impl.knobs = knobs;
    impl.kernel = work;
    impl.available = available;
    impl.supports = ask;
    impl.heuristic = heuristic;
    impl.workspace_size = workspace_size;
    registry->register_impl(registry, &impl);
}

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    opdock_vendor vendor = {0};
    opdock_op op = {0};
    vendor.struct_size = OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command);
    vendor.name = "acme";
    vendor.device_name = "npu";
    vendor.dispatch_key = "PrivateUse1";
    vendor.device_query_command = "npu-smi";
    registry->register_vendor(registry, &vendor);
    op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op, doc);
    op.signature = "acme.everything(input: T[..., n], *, scale: float = 1.0) -> (output: T[..., n])";
    op.doc = "Everything.";
    registry->register_op(registry, &op);
    register_impl(registry);
#ifdef WITH_DEVICE
    register_device(registry);
#else
    (void)register_device;
#endif
    registry->register_shutdown(registry, shut_down, NULL);
    registry->fail(registry, OPDOCK_FAILED, "not returned");
    registry->host->fail(registry->host, OPDOCK_FAILED, "nor this");
    return OPDOCK_OK;
}
