#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "probe/transcript_format.h"

static int is_open;
static size_t registrations;

typedef struct shutdown_function {
    void (*function)(void *user_data);
    void *user_data;
} shutdown_function;

static shutdown_function *shutdowns;
static size_t n_shutdowns;

/* Like the host's registry: returns an error after the entry returned, and after too many registrations. */
static int accepts(void) {
    return is_open && ++registrations <= OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS;
}

/* Copies the bytes of a plugin's struct that both sides know. */
static void copy_known(void *to, size_t size, const void *from) {
    uint32_t given;
    memcpy(&given, from, sizeof given);
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &given, sizeof given);
}

/* Writes whether the struct is present. Returns true if it is. */
static int begin_struct(const void *given) {
    add_u8(given != NULL);
    return given != NULL;
}

#define FORGET(pointer) ((pointer) = NULL)
#define MARK(type, function) ((function) = (function) != NULL ? (type)(uintptr_t)1 : NULL)

static opdock_status register_vendor(opdock_registry *registry, const opdock_vendor *given) {
    opdock_vendor vendor;
    opdock_vendor sent;
    (void)registry;
    if (!accepts()) {
        return OPDOCK_INVALID_ARGUMENT;
    }
    begin_record(OPDOCK_RECORD_VENDOR);
    if (begin_struct(given)) {
        copy_known(&vendor, sizeof vendor, given);
        sent = vendor;
        FORGET(sent.name);
        FORGET(sent.device_name);
        FORGET(sent.dispatch_key);
        FORGET(sent.device_query_command);
        add_bytes(&sent, sizeof sent);
        add_text(vendor.name);
        add_text(vendor.device_name);
        add_text(vendor.dispatch_key);
        add_text(vendor.device_query_command);
    }
    end_record();
    return OPDOCK_OK;
}

static opdock_status register_device_provider(opdock_registry *registry, const opdock_device_provider *given) {
    opdock_device_provider device;
    opdock_device_provider sent;
    (void)registry;
    if (!accepts()) {
        return OPDOCK_INVALID_ARGUMENT;
    }
    begin_record(OPDOCK_RECORD_DEVICE);
    if (begin_struct(given)) {
        copy_known(&device, sizeof device, given);
        sent = device;
        FORGET(sent.device);
        FORGET(sent.stream_type);
        FORGET(sent.user_data);
        MARK(__typeof__(sent.count), sent.count);
        MARK(__typeof__(sent.properties), sent.properties);
        MARK(__typeof__(sent.get_current), sent.get_current);
        MARK(__typeof__(sent.make_current), sent.make_current);
        MARK(__typeof__(sent.allocate), sent.allocate);
        MARK(__typeof__(sent.free), sent.free);
        MARK(__typeof__(sent.copy), sent.copy);
        MARK(__typeof__(sent.stream_create), sent.stream_create);
        MARK(__typeof__(sent.stream_destroy), sent.stream_destroy);
        MARK(__typeof__(sent.stream_synchronize), sent.stream_synchronize);
        MARK(__typeof__(sent.stream_is_capturing), sent.stream_is_capturing);
        MARK(__typeof__(sent.event_create), sent.event_create);
        MARK(__typeof__(sent.event_destroy), sent.event_destroy);
        MARK(__typeof__(sent.event_record), sent.event_record);
        MARK(__typeof__(sent.event_elapsed), sent.event_elapsed);
        MARK(__typeof__(sent.stream_callback), sent.stream_callback);
        add_bytes(&sent, sizeof sent);
        add_text(device.device);
        add_text(device.stream_type);
    }
    end_record();
    return OPDOCK_OK;
}

static opdock_status register_op(opdock_registry *registry, const opdock_op_declaration *given) {
    opdock_op_declaration op;
    opdock_op_declaration sent;
    (void)registry;
    if (!accepts()) {
        return OPDOCK_INVALID_ARGUMENT;
    }
    begin_record(OPDOCK_RECORD_OP);
    if (begin_struct(given)) {
        copy_known(&op, sizeof op, given);
        sent = op;
        FORGET(sent.signature);
        FORGET(sent.doc);
        add_bytes(&sent, sizeof sent);
        add_text(op.signature);
        add_text(op.doc);
    }
    end_record();
    return OPDOCK_OK;
}

static void add_knob(const opdock_knob *given) {
    opdock_knob knob;
    opdock_knob sent;
    if (!begin_struct(given)) {
        return;
    }
    copy_known(&knob, sizeof knob, given);
    sent = knob;
    FORGET(sent.name);
    FORGET(sent.doc);
    FORGET(sent.choices);
    add_bytes(&sent, sizeof sent);
    add_text(knob.name);
    add_text(knob.doc);
    add_text(knob.choices);
}

static opdock_status register_impl(opdock_registry *registry, const opdock_impl *given) {
    opdock_impl impl;
    opdock_impl sent;
    uint32_t i;
    (void)registry;
    if (!accepts()) {
        return OPDOCK_INVALID_ARGUMENT;
    }
    begin_record(OPDOCK_RECORD_IMPL);
    if (begin_struct(given)) {
        copy_known(&impl, sizeof impl, given);
        sent = impl;
        FORGET(sent.op);
        FORGET(sent.impl_id);
        FORGET(sent.vendor);
        FORGET(sent.device);
        FORGET(sent.dtypes);
        FORGET(sent.architectures);
        FORGET(sent.user_data);
        /* Not a function, but its presence matters. */
        sent.knobs = impl.knobs != NULL ? (const opdock_knob *const *)(uintptr_t)1 : NULL;
        MARK(__typeof__(sent.kernel), sent.kernel);
        MARK(__typeof__(sent.available), sent.available);
        MARK(__typeof__(sent.supports), sent.supports);
        MARK(__typeof__(sent.heuristic), sent.heuristic);
        MARK(__typeof__(sent.device_init), sent.device_init);
        MARK(__typeof__(sent.device_fini), sent.device_fini);
        MARK(__typeof__(sent.plan_create), sent.plan_create);
        MARK(__typeof__(sent.plan_destroy), sent.plan_destroy);
        MARK(__typeof__(sent.workspace_size), sent.workspace_size);
        MARK(__typeof__(sent.get_extension), sent.get_extension);
        add_bytes(&sent, sizeof sent);
        add_text(impl.op);
        add_text(impl.impl_id);
        add_text(impl.vendor);
        add_text(impl.device);
        add_text(impl.dtypes);
        add_text(impl.architectures);
        if (impl.knobs != NULL && impl.n_knobs < OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS) {
            for (i = 0; i < impl.n_knobs; ++i) {
                add_knob(impl.knobs[i]);
            }
        }
    }
    end_record();
    return OPDOCK_OK;
}

static void keep_shutdown(void (*function)(void *), void *user_data) {
    shutdown_function *more;
    if ((n_shutdowns & (n_shutdowns - 1)) == 0) { /* full, or not yet allocated */
        more = realloc(shutdowns, (n_shutdowns == 0 ? 1 : 2 * n_shutdowns) * sizeof *shutdowns);
        if (more == NULL) {
            abort();
        }
        shutdowns = more;
    }
    shutdowns[n_shutdowns].function = function;
    shutdowns[n_shutdowns].user_data = user_data;
    ++n_shutdowns;
}

static opdock_status register_shutdown(opdock_registry *registry, void (*shutdown)(void *), void *user_data) {
    (void)registry;
    if (!accepts()) {
        return OPDOCK_INVALID_ARGUMENT;
    }
    keep_shutdown(shutdown, user_data);
    begin_record(OPDOCK_RECORD_SHUTDOWN);
    add_u8(shutdown != NULL);
    end_record();
    return OPDOCK_OK;
}

static opdock_status registry_fail(opdock_registry *registry, opdock_status status, const char *message) {
    (void)registry;
    if (is_open) {
        send_text(OPDOCK_RECORD_FAIL, message);
    }
    return status;
}

/* Kernels do not run here, so only the entry can call this. */
static opdock_status host_fail(const opdock_host_api *host, opdock_status status, const char *message) {
    (void)host;
    if (is_open) {
        send_text(OPDOCK_RECORD_HOST_FAIL, message);
    }
    return status;
}

static void host_log(const opdock_host_api *host, int32_t level, const char *message) {
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    (void)host;
    if (level >= OPDOCK_LOG_INFO && level <= OPDOCK_LOG_ERROR) {
        fprintf(stderr, "%s: %s\n", names[level], message != NULL ? message : "");
    }
}

static const void *host_get_extension(const opdock_host_api *host, const char *name) {
    (void)host;
    (void)name;
    return NULL;
}

static opdock_status host_call_op(const opdock_problem *from, const char *op, const opdock_args *args) {
    (void)from;
    (void)op;
    (void)args;
    return OPDOCK_UNSUPPORTED;
}

void record_registration(opdock_entry entry) {
    static opdock_host_api host;
    static opdock_registry registry;
    opdock_status status;

    host.struct_size = OPDOCK_STRUCT_SIZE(opdock_host_api, call_op);
    host.abi_major = OPDOCK_ABI_MAJOR;
    host.abi_minor = OPDOCK_ABI_MINOR;
    host.log = host_log;
    host.fail = host_fail;
    host.get_extension = host_get_extension;
    host.call_op = host_call_op;
    registry.struct_size = OPDOCK_STRUCT_SIZE(opdock_registry, user_data);
    registry.abi_major = OPDOCK_ABI_MAJOR;
    registry.abi_minor = OPDOCK_ABI_MINOR;
    registry.host = &host;
    registry.register_vendor = register_vendor;
    registry.register_device_provider = register_device_provider;
    registry.register_op = register_op;
    registry.register_impl = register_impl;
    registry.register_shutdown = register_shutdown;
    registry.fail = registry_fail;

    is_open = 1;
    status = entry(&registry);
    is_open = 0;
    begin_record(OPDOCK_RECORD_RETURNED);
    add_bytes(&status, sizeof status);
    end_record();
    if (status != OPDOCK_OK) {
        n_shutdowns = 0;
    }
}

void run_shutdowns(void) {
    while (n_shutdowns > 0) {
        const shutdown_function last = shutdowns[--n_shutdowns];
        if (last.function != NULL) {
            last.function(last.user_data);
        }
    }
}
