/* A plugin built for a made-up ABI 1.MINOR: its structs are longer, and its flags have bits that are unknown today.
 * abi.scale(x, factor) -> y = factor * x + 0.5, by 'vendor.newer'. The variable OPDOCK_ABI_CASE selects what else it
 * registers that today's host cannot know. */
#include <stdlib.h>
#include <string.h>

#include <opdock/plugin.h>

#undef OPDOCK_ABI_MINOR
#define OPDOCK_ABI_MINOR MINOR
#ifdef MAJOR
#undef OPDOCK_ABI_MAJOR
#define OPDOCK_ABI_MAJOR MAJOR
#endif
#ifdef OLDEST_HOST_MINOR
#undef OPDOCK_ABI_OLDEST_HOST_MINOR
#define OPDOCK_ABI_OLDEST_HOST_MINOR OLDEST_HOST_MINOR
#endif
OPDOCK_NOTE(ID, "1.0.0", "newer", "cpu", "")

#define UNKNOWN 0x80000000u

/* A struct of today, followed by the fields that 1.MINOR appended. struct_size covers both. */
#define NEWER(type)                                                                                                    \
    typedef struct {                                                                                                   \
        type known;                                                                                                    \
        uint64_t appended[MINOR];                                                                                      \
    } newer_##type
NEWER(opdock_op_declaration);
NEWER(opdock_impl);
NEWER(opdock_knob);
NEWER(opdock_vendor);
NEWER(opdock_device_provider);
NEWER(opdock_device_properties);

/* Zeroes the object and sets its size. Fills the appended part with values that would harm any reader of it. */
#define BEGIN(object)                                                                                                  \
    memset(&(object), 0, sizeof(object));                                                                              \
    memset((object).appended, 0xa5, sizeof(object).appended);                                                          \
    (object).known.struct_size = (uint32_t)sizeof(object)

static int is_case(const char *name) {
    const char *chosen = getenv("OPDOCK_ABI_CASE");
    return chosen != NULL && strcmp(chosen, name) == 0;
}

static opdock_status scale(const opdock_problem *problem, const opdock_call *call) {
    const float *x = (const float *)call->data[0];
    float *y = (float *)call->data[problem->tensor_offsets[problem->n_inputs]];
    const int64_t count = opdock_n_elements(problem->tensors[0]);
    int64_t i;
    if (is_case("status"))
        return 77;
    if (is_case("extension") && problem->host->get_extension(problem->host, "opdock.of_tomorrow") != NULL)
        return OPDOCK_FAILED;
    for (i = 0; i < count; ++i)
        y[i] = (float)(problem->attributes[0].as.f * x[i] + 0.5);
    return OPDOCK_OK;
}

static const void *get_extension(const opdock_host_api *host, void *user_data, const char *name) {
    static const uint32_t counters[2] = {sizeof counters, 7};
    (void)host;
    (void)user_data;
    return strcmp(name, "newer.counters") == 0 ? counters : NULL;
}

/* --- its own device ----------------------------------------------------------------------------------------------- */

static opdock_status count(const opdock_host_api *host, void *user_data, int32_t *count) {
    (void)host;
    (void)user_data;
    *count = 1;
    return OPDOCK_OK;
}
/* Plugins of 1.MINOR fill in only as much as the host has room for. */
static opdock_status properties(const opdock_host_api *host, void *user_data, int32_t index,
                                opdock_device_properties *given) {
    newer_opdock_device_properties own;
    const uint32_t size = given->struct_size;
    (void)host;
    (void)user_data;
    (void)index;
    BEGIN(own);
    strcpy(own.known.name, "Newer 1");
    memcpy(given, &own, size < sizeof own ? size : sizeof own);
    given->struct_size = size;
    return OPDOCK_OK;
}
static opdock_status get_current(const opdock_host_api *host, void *user_data, int32_t *index) {
    (void)host;
    (void)user_data;
    *index = 0;
    return OPDOCK_OK;
}
static opdock_status make_current(const opdock_host_api *host, void *user_data, int32_t index) {
    (void)host;
    (void)user_data;
    (void)index;
    return OPDOCK_OK;
}
static opdock_status allocate(const opdock_host_api *host, void *user_data, int32_t index, void *stream, uint64_t bytes,
                              void **memory) {
    (void)host;
    (void)user_data;
    (void)index;
    (void)stream;
    *memory = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
    return *memory != NULL ? OPDOCK_OK : OPDOCK_OUT_OF_MEMORY;
}
static opdock_status release(const opdock_host_api *host, void *user_data, int32_t index, void *stream, void *memory) {
    (void)host;
    (void)user_data;
    (void)index;
    (void)stream;
    free(memory);
    return OPDOCK_OK;
}
static opdock_status copy(const opdock_host_api *host, void *user_data, void *to, DLDevice to_device, const void *from,
                          DLDevice from_device, uint64_t bytes, void *stream) {
    (void)host;
    (void)user_data;
    (void)to_device;
    (void)from_device;
    (void)stream;
    memcpy(to, from, (size_t)bytes);
    return OPDOCK_OK;
}
static opdock_status stream_create(const opdock_host_api *host, void *user_data, int32_t index, void **stream) {
    (void)host;
    (void)user_data;
    (void)index;
    *stream = NULL;
    return OPDOCK_OK;
}
static opdock_status with_handle(const opdock_host_api *host, void *user_data, int32_t index, void *handle) {
    (void)host;
    (void)user_data;
    (void)index;
    (void)handle;
    return OPDOCK_OK;
}
static opdock_status is_capturing(const opdock_host_api *host, void *user_data, int32_t index, void *stream,
                                  int32_t *capturing) {
    (void)host;
    (void)user_data;
    (void)index;
    (void)stream;
    *capturing = 0;
    return OPDOCK_OK;
}
static opdock_status event_record(const opdock_host_api *host, void *user_data, int32_t index, void *event,
                                  void *stream) {
    (void)host;
    (void)user_data;
    (void)index;
    (void)event;
    (void)stream;
    return OPDOCK_OK;
}
static opdock_status event_elapsed(const opdock_host_api *host, void *user_data, int32_t index, void *begin, void *end,
                                   float *milliseconds) {
    (void)host;
    (void)user_data;
    (void)index;
    (void)begin;
    (void)end;
    *milliseconds = 1;
    return OPDOCK_OK;
}

static void register_device(opdock_registry *registry, uint32_t required_flags) {
    newer_opdock_device_provider device;
    BEGIN(device);
    device.known.flags = UNKNOWN;
    device.known.required_flags = required_flags;
    device.known.dl_device_type = kDLExtDev;
    device.known.device = "newdev";
    device.known.stream_type = "none";
    device.known.count = count;
    device.known.properties = properties;
    device.known.get_current = get_current;
    device.known.make_current = make_current;
    device.known.allocate = allocate;
    device.known.free = release;
    device.known.copy = copy;
    device.known.stream_create = stream_create;
    device.known.stream_destroy = with_handle;
    device.known.stream_synchronize = with_handle;
    device.known.stream_is_capturing = is_capturing;
    device.known.event_create = stream_create;
    device.known.event_destroy = with_handle;
    device.known.event_record = event_record;
    device.known.event_elapsed = event_elapsed;
    registry->register_device_provider(registry, &device.known);
}

/* --- registrations ------------------------------------------------------------------------------------------------ */

static void register_op(opdock_registry *registry, const char *signature, uint32_t required_flags) {
    newer_opdock_op_declaration op;
    BEGIN(op);
    op.known.flags = UNKNOWN;
    op.known.required_flags = required_flags;
    op.known.signature = signature;
    registry->register_op(registry, &op.known);
}

static newer_opdock_impl impl_of(const char *op, const char *impl_id) {
    newer_opdock_impl impl;
    BEGIN(impl);
    impl.known.flags = UNKNOWN;
    impl.known.kind = OPDOCK_KIND_VENDOR;
    impl.known.op = op;
    impl.known.impl_id = impl_id;
    impl.known.device = "cpu";
    impl.known.priority = 1;
    impl.known.kernel = scale;
    impl.known.get_extension = get_extension;
    return impl;
}

/* An implementation that would come before 'vendor.newer', but that today's host leaves out. */
static newer_opdock_impl odd_impl(const char *op) {
    newer_opdock_impl impl = impl_of(op, "vendor.odd");
    impl.known.priority = 9;
    return impl;
}

static void register_odd_op(opdock_registry *registry, const char *signature, uint32_t required_flags) {
    const newer_opdock_impl impl = odd_impl(is_case("name") ? "abi.odd@2" : "abi.odd");
    register_op(registry, signature, required_flags);
    registry->register_impl(registry, &impl.known);
}

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    newer_opdock_impl impl = impl_of("abi.scale", "vendor.newer"), odd = odd_impl("abi.scale");
    newer_opdock_knob knob;
    const opdock_knob *knobs[1];

    BEGIN(knob);
    knob.known.type = OPDOCK_KNOB_INT;
    knob.known.name = "block";
    knob.known.minimum = 1;
    knob.known.maximum = 8;
    knob.known.default_value = 4;
    knobs[0] = &knob.known;
    impl.known.n_knobs = 1;
    impl.known.knobs = knobs;
    if (is_case("vendor")) {
        newer_opdock_vendor vendor;
        BEGIN(vendor);
        vendor.known.flags = UNKNOWN;
        vendor.known.name = "newer";
        vendor.known.device_name = "newdev";
        registry->register_vendor(registry, &vendor.known);
    }
    /* The signature of 1.MINOR; that of 1.0 is its beginning. */
    register_op(registry,
                is_case("longer") ? "abi.scale(x: T[..., n], z: T[..., n]?, *, factor: float = 2.0, of_tomorrow: int "
                                    "= 1) -> (y: T[..., n], extra: T[n]?)"
                                  : "abi.scale(x: T[..., n], *, factor: float = 2.0) -> (y: T[..., n])",
                0);
    if (is_case("device"))
        register_device(registry, 0);
    if (is_case("required flag of a device"))
        register_device(registry, UNKNOWN);
    if (is_case("required flag of an op"))
        register_odd_op(registry, "abi.odd(x: T[n]) -> (y: T[n])", UNKNOWN);
    if (is_case("dtype of a signature"))
        register_odd_op(registry, "abi.odd(x: T[n]) -> (y: T[n]) where T in f32|f6e9", 0);
    if (is_case("type of an attribute"))
        register_odd_op(registry, "abi.odd(x: T[n], *, how: tensor_map = none) -> (y: T[n])", 0);
    if (is_case("grammar"))
        register_odd_op(registry, "abi.odd(x: T[n] @ shared) -> (y: T[n])", 0);
    if (is_case("name"))
        register_odd_op(registry, "abi.odd@2(x: T[n]) -> (y: T[n])", 0);
    if (is_case("required flag"))
        odd.known.required_flags = UNKNOWN;
    if (is_case("kind"))
        odd.known.kind = 77;
    if (is_case("dtypes"))
        odd.known.dtypes = "f32|f6e9";
    if (is_case("knob")) {
        knob.known.type = 77;
        odd.known.n_knobs = 1;
        odd.known.knobs = knobs;
        registry->register_impl(registry, &odd.known);
        knob.known.type = OPDOCK_KNOB_INT;
    } else if (is_case("required flag") || is_case("kind") || is_case("dtypes")) {
        registry->register_impl(registry, &odd.known);
    }
    registry->register_impl(registry, &impl.known);
    return OPDOCK_OK;
}
