/* libopdock for embedding programs, in C. Most programs want opdock/opdock.hpp, the C++20 wrapper.
 *
 *   opdock_host *host;
 *   opdock_op *rmsnorm;
 *   opdock_open(NULL, &host);
 *   opdock_find_op(host, "rmsnorm_fwd", &rmsnorm);
 *   opdock_call_op(rmsnorm, &args);
 *   opdock_close(host);
 *
 * There are three ways to call, each cheaper than the one before: opdock_call_by_name looks up the op and validates;
 * opdock_call_op validates; opdock_prepared_run does neither, because opdock_prepare did.
 *
 * Every function returns a status: a plugin's own (opdock/abi/status.h) or one of those below. If it is not OPDOCK_OK,
 * opdock_last_error() on the same thread says what failed, what was expected, what was found and what to do. Functions
 * may be called on any thread, concurrently, unless documented otherwise. Handles belong to the host and live as long
 * as the host. Strings returned through `char **` belong to the caller, who frees them with opdock_string_free. Nothing
 * else changes ownership.
 *
 * Arguments are validated, except pointers: a null pointer is undefined behavior unless documented as optional. */
#ifndef OPDOCK_OPDOCK_H
#define OPDOCK_OPDOCK_H

#include "opdock/plugin.h"

#define OPDOCK_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Statuses of the host itself, in addition to those of plugins. */
#define OPDOCK_UNKNOWN_OP 100        /* no plugin declares the op */
#define OPDOCK_NO_IMPLEMENTATION 101 /* declared, but no plugin implements it */
#define OPDOCK_ALL_DROPPED 102       /* implemented, but policy, device, dtypes or availability exclude all */
#define OPDOCK_ALL_FAILED 103        /* every eligible implementation declined or failed */
#define OPDOCK_NOT_PREPARED 104      /* the stream is being captured and the op was never resolved: prepare first */
#define OPDOCK_INVALID_POLICY 105    /* a policy variable, file or setting is invalid */
#define OPDOCK_LOAD_FAILED 106       /* a plugin requested by name did not load */
#define OPDOCK_INTERNAL_ERROR 107    /* a bug in opdock */
#define OPDOCK_INVALID_TUNE_FILE 108 /* a tune file is invalid */
#define OPDOCK_FROZEN 109            /* the host was frozen, and this would change what serves calls */

/* The message of this thread's last status other than OPDOCK_OK; "" if there was none. Valid until the thread's next
 * call into opdock. */
OPDOCK_API const char *opdock_last_error(void);

/* "UNSUPPORTED" for OPDOCK_UNSUPPORTED, and so on; "UNKNOWN" for any other number. Static. */
OPDOCK_API const char *opdock_status_name(opdock_status status);

OPDOCK_API void opdock_string_free(char *string);

/* The ABI version of this library, which may be newer than the headers that a program was built with. */
OPDOCK_API void opdock_abi_version(uint32_t *major, uint32_t *minor);

/* --- opening ---------------------------------------------------------------------------------------------------- */

typedef struct opdock_host opdock_host;

/* opdock_options.flags */
#define OPDOCK_OPEN_RESCAN                                                                                             \
    1u /* try every plugin again, regardless of the scan cache, including plugins that it would skip */
#define OPDOCK_OPEN_RETRY 2u /* retry plugins in `modules` that the scan cache would skip */

typedef struct opdock_options {
    uint32_t struct_size;
    /* OPDOCK_OPEN_ bits. */
    uint32_t flags;
    uint32_t n_modules;
    uint32_t reserved; /* 0 */
    /* The prefix of environment variables; null means "PLUGIN_". With "TE_FL_" the host reads TE_FL_PREFER,
     * TE_FL_PLUGIN_MODULES, ... */
    const char *prefix;
    /* Plugin files or directories, absolute, searched first; in strict mode they count as requested by name.
     */
    const char *const *modules;
    /* Receives every log message, such as "[opdock] [info] Op 'gelu' using ...", instead of stderr; null means stderr.
     * A message may have several lines; its last newline is omitted. Called on any thread, also while the host is
     * working, so the function must not call the host. */
    void (*log)(void *user_data, int32_t level, const char *line);
    void *log_user_data;
    /* Allocates workspaces and the memory that plugins keep (opdock/abi/allocator.h), aligned to 256; if both are null,
     * the device provider allocates. `free_workspace` is called right after the kernel returns, with the same stream:
     * the memory must stay usable for work queued on that stream. Workspaces are also requested while the stream is
     * being captured; the provider is not called then. */
    void *(*allocate_workspace)(void *user_data, DLDevice device, void *stream, uint64_t bytes);
    void (*free_workspace)(void *user_data, DLDevice device, void *stream, void *memory);
    void *workspace_user_data;
    /* Returns the table of the extension `name` that the program offers to plugins in addition to the host, or null.
     * See opdock_host_api.get_extension; opdock/abi/thread_pool.h is an example. Called often, on any thread; tables
     * must stay constant and valid until the host is closed. May be null. */
    const void *(*get_extension)(void *user_data, const char *name);
    void *extension_user_data;
} opdock_options;

/* Reads the policy, then finds and loads plugins. `options` may be null. On failure nothing stays open. */
OPDOCK_API opdock_status opdock_open(const opdock_options *options, opdock_host **host);

/* Calls the plugins' shutdown functions, newest first, and frees the host with all its ops. No call may be in flight,
 * and no prepared call may be used or destroyed afterwards. Plugins stay mapped. Null is ignored. */
OPDOCK_API void opdock_close(opdock_host *host);

/* Loads one more plugin file by its absolute path; its implementations join the chains of later calls. */
OPDOCK_API opdock_status opdock_load(opdock_host *host, const char *path);

/* Registers the program's own implementations, as a plugin with this id would: `entry` corresponds to the function
 * opdock_register that a shared object exports. `vendor` may be null. The entry finds `user_data` in its registry. */
OPDOCK_API opdock_status opdock_register_module(opdock_host *host, const char *id, const char *vendor,
                                                opdock_entry entry, void *user_data);

/* Like opdock_register_module, for implementations that the program removes again, such as JIT-compiled ones. Ops and
 * implementations only, no devices or shutdown functions. Each call costs two more atomic additions.
 */
OPDOCK_API opdock_status opdock_register_temporary_module(opdock_host *host, const char *id, const char *vendor,
                                                          opdock_entry entry, void *user_data);

/* Removes such a module. Waits until none of its functions runs, then destroys its plans and device states: after the
 * return, its code and what `user_data` points to may be freed. Other implementations serve later calls; prepared calls
 * return OPDOCK_UNSUPPORTED, and calls of an op that no other plugin declares return OPDOCK_UNKNOWN_OP until one does.
 * The program must wait for work that the module queued on a device. Must not be called from a function of the module,
 * which would wait for itself. The host keeps about 80 KiB per module until it is closed, because threads may still
 * read it. Returns OPDOCK_INVALID_ARGUMENT if `id` is not a temporary module. */
OPDOCK_API opdock_status opdock_unregister_module(opdock_host *host, const char *id);

/* --- calling ---------------------------------------------------------------------------------------------------- */

typedef struct opdock_op opdock_op;

/* An immutable decision. An op points to exactly one at any time; a new decision replaces it atomically. */
typedef struct opdock_target {
    opdock_status (*call)(const struct opdock_target *target, opdock_op *op, const opdock_args *args);
} opdock_target;

/* An op, looked up once and kept. The layouts of opdock_target and opdock_op are frozen. */
struct opdock_op {
    uint32_t index; /* the host's index */
    uint32_t reserved;
    /* Never null; load it with acquire order. */
    const opdock_target *target;
};

/* Returns OPDOCK_UNKNOWN_OP and a null *op if no plugin declares `name`. Returns the same op every time. */
OPDOCK_API opdock_status opdock_find_op(opdock_host *host, const char *name, opdock_op **op);

/* Validates and runs one call: the first implementation of the op's chain, or the next one if it declines or fails and
 * the policy is not strict. */
static inline opdock_status opdock_call_op(opdock_op *op, const opdock_args *args) {
    const opdock_target *target = __atomic_load_n(&op->target, __ATOMIC_ACQUIRE);
    return target->call(target, op, args);
}

OPDOCK_API opdock_status opdock_call_by_name(opdock_host *host, const char *name, const opdock_args *args);

/* Maximum rank that this library accepts; a later version may accept more. */
#define OPDOCK_MAX_RANK 8

typedef struct opdock_tensor_spec {
    /* The parameter's name; owned by the host. */
    const char *name;
    /* `ndim` sizes; valid until this thread's next call of opdock_infer_outputs. */
    const int64_t *shape;
    int32_t ndim;
    DLDataType dtype;
    /* Nonzero if the caller may pass null for it. */
    uint32_t optional;
    /* Index of the parameter among the signature's outputs. */
    uint32_t parameter;
} opdock_tensor_spec;

/* Describes the outputs of a call with these inputs and attributes; `args->outputs` is not read. An output whose size
 * depends on the data has the largest size that its signature allows. Writes at most `capacity` specs of `spec_size`
 * bytes each, which is sizeof(opdock_tensor_spec), and sets *count to the number of outputs. */
OPDOCK_API opdock_status opdock_infer_outputs(opdock_op *op, const opdock_args *args, opdock_tensor_spec *specs,
                                              uint32_t spec_size, uint32_t capacity, uint32_t *count);

/* The parsed signature as JSON: {"op", "signature", "inputs": [{"name", "optional", "list", "mut", "host"}],
 * "outputs": [...], "attributes": [{"name", "type", "optional", "default"}], "dtype_variables": [...]}. */
OPDOCK_API opdock_status opdock_signature_json(opdock_op *op, char **json);

/* --- policy ----------------------------------------------------------------------------------------------------- */

/* An immutable set of policy items, spelled like the environment variables without their prefix, in lower case: prefer,
 * prefer_vendor, strict, allow_vendors, deny_vendors, per_op. Missing items come from the layers below. */
typedef struct opdock_policy opdock_policy;

typedef struct opdock_setting {
    const char *name;
    const char *value;
} opdock_setting;

OPDOCK_API opdock_status opdock_policy_create(opdock_host *host, const opdock_setting *settings, uint32_t count,
                                              opdock_policy **policy);
OPDOCK_API void opdock_policy_release(opdock_policy *policy);

/* Sets the program's policy: above the environment, below scopes. Null removes it. */
OPDOCK_API opdock_status opdock_policy_set(opdock_host *host, const opdock_policy *policy);

/* Policy scope of the calling thread: between push and pop its items override all but `enforce:`. Scopes nest. */
OPDOCK_API opdock_status opdock_policy_push(opdock_host *host, const opdock_policy *policy);
OPDOCK_API opdock_status opdock_policy_pop(opdock_host *host);

/* Returns the policy in force on the calling thread, so that it can be pushed on a worker thread. */
OPDOCK_API opdock_status opdock_policy_effective(opdock_host *host, opdock_policy **policy);

/* Rereads environment and files. If they are invalid, the old policy stays. */
OPDOCK_API opdock_status opdock_policy_reload(opdock_host *host);

/* --- prepared calls --------------------------------------------------------------------------------------------- */

/* A snapshot: implementation, config and plan for one problem. Later policy and health changes do not affect it. The
 * library owns it; later versions add fields at the end. */
typedef struct opdock_prepared {
    uint32_t struct_size;
    /* Number of data pointers of a run: one for each tensor given to prepare, in the order args->inputs, args->outputs,
     * null for tensors that were null. A longer form of the op's signature, declared before or after, does not change
     * this number. */
    uint32_t n_data;
    opdock_kernel kernel;
    const opdock_problem *problem;
    uint64_t workspace_size;
    /* Required alignment of each data pointer in bytes; 0: the element size of its tensor. */
    uint64_t alignment;
} opdock_prepared;

/* `args` describes the problem. Its data pointers may be null; if they are not, the chosen implementation accepts data
 * with their alignment. `policy` may be null, which means the policy in force. */
OPDOCK_API opdock_status opdock_prepare(opdock_op *op, const opdock_args *args, const opdock_policy *policy,
                                        opdock_prepared **prepared);
/* Must be called while the host is open, because the host owns the plan. Null is ignored. */
OPDOCK_API void opdock_prepared_destroy(opdock_prepared *prepared);

/* Nonzero if a call made now might choose differently. */
OPDOCK_API int32_t opdock_prepared_stale(const opdock_prepared *prepared);

/* The implementation's id; owned by the prepared call. */
OPDOCK_API const char *opdock_prepared_impl(const opdock_prepared *prepared);

/* For opdock_prepared_run, if the call does not match the prepared call. Allocates a missing workspace unless the
 * stream is being captured; otherwise returns OPDOCK_INVALID_ARGUMENT with the reason. */
OPDOCK_API opdock_status opdock_prepared_run_incomplete(const opdock_prepared *prepared, const opdock_call *call);

/* Runs the prepared call with new pointers. Validates nothing else, counts nothing and never falls back: returns the
 * kernel's status and passes its exceptions on. May run on any number of threads at once. The device must be current.
 * If a required workspace is missing, the host provides one and turns exceptions into a status. */
static inline opdock_status opdock_prepared_run(const opdock_prepared *prepared, const opdock_call *call) {
    if (call->n_data != prepared->n_data || call->workspace_size < prepared->workspace_size)
        return opdock_prepared_run_incomplete(prepared, call);
    /* The first run may go through the host, which then removes itself from the path. */
    return __atomic_load_n(&prepared->kernel, __ATOMIC_RELAXED)(prepared->problem, call);
}

/* Call it after a run on this thread returned `status` other than OPDOCK_OK: makes opdock_last_error() the kernel's
 * message for that status, or states that the kernel gave no reason. Without it, opdock_last_error() after a run is the
 * thread's last message, whoever set it. Known limitation: a message that a kernel left before it returned OPDOCK_OK is
 * attributed to the next failure that gives no reason. Returns `status`. */
OPDOCK_API opdock_status opdock_prepared_failed(const opdock_prepared *prepared, opdock_status status);

/* --- freezing --------------------------------------------------------------------------------------------------- */

/* Fixes the implementation and configs of each op for each device and combination of dtypes. Opens the plugins of all
 * chosen implementations. From then on nothing falls back, failures remove nothing from chains, scoped policies have no
 * effect, and whatever would change a choice returns OPDOCK_FROZEN: changing policies, plugins and modules, tuning,
 * resetting health, refreshing availability, and preparing under a policy. Freezing again returns the manifest again.
 * No other thread may change any of these meanwhile.
 *
 * *manifest is JSON of schema opdock.frozen/1: {"schema", "digest", "choices": [{"op", "device": its type, "model",
 * "dtypes": ["bf16,f32"], "impl_id", "plugin", "build_id", "configs": a digest of the tune file and the database's
 * entries, "" without configs}]}. Two digests are equal exactly when the choices are, on any machine.
 *
 * `expected` is the manifest of another host, or null. If the choices here differ from it, returns
 * OPDOCK_INVALID_POLICY with the differences, and the host is not frozen. */
OPDOCK_API opdock_status opdock_freeze(opdock_host *host, const char *expected, char **manifest);

/* --- looking --------------------------------------------------------------------------------------------------------
 */

/* The state of the host as JSON of schema opdock.plugin-ls/1: host, policy with sources, search paths and their
 * problems, plugins with the reasons of those rejected, ops with implementations and chains. All keys:
 * docs/plugin-ls-json.md. */
OPDOCK_API opdock_status opdock_describe(opdock_host *host, char **json);

/* The decision for one key, as JSON: {"op", "device", "dtypes", "strict", "order", "order_source", "chain": [impl_id],
 * "dropped": [{"impl_id", "rule", "reason"}], "kept": [{"impl_id", "rule"}]}. `device` is "cpu" or "cuda:1"; null means
 * "cpu:0". `dtypes` is "bf16,f32" for the signature's variables in order, or null for all implementations of any
 * dtypes. `policy` may be null. */
OPDOCK_API opdock_status opdock_explain(opdock_host *host, const char *op, const char *device, const char *dtypes,
                                        const opdock_policy *policy, char **json);

/* The decision for one call, as opdock_explain returns it for one key, and with "configs", one for each implementation
 * of the chain that has knobs: {"impl_id", "config": {"block": 256}, "source": "pinned", "database", "heuristic
 * function", "heuristic of the tune file" or "defaults", "origin", "dtypes", "key": "n=4096", "bucketed": "n: log2",
 * "candidates": number of configs to tune, "tune_file", "refused"}. "refused" says why it would not take the call; then
 * the other keys are absent. `args` as for opdock_prepare. */
OPDOCK_API opdock_status opdock_explain_call(opdock_op *op, const opdock_args *args, const opdock_policy *policy,
                                             char **json);

/* The verdict of `plugin-ls --check` on one plugin file under this environment's settings, as JSON: {"path", "status":
 * "ok", "rejected" or "quarantined" (hosts do not try it again), "code", "reason", "note": {...} or null, "warnings":
 * [...], "build_id", "linkage": {"exports", "libraries", "search_paths", "versions", "relocates_text"} or null}. Runs
 * none of the file's code. Needs no open host. Uses the results that hosts stored in PLUGIN_SCAN_CACHE. `prefix` is the
 * prefix of environment variables, as in opdock_options; null means "PLUGIN_". */
OPDOCK_API opdock_status opdock_check_file(const char *path, const char *prefix, char **json);

/* --- devices ------------------------------------------------------------------------------------------------------
 * Access to a device through its provider, for programs and tools that have no other way to its memory. A device
 * without a provider gives OPDOCK_UNSUPPORTED. Streams are the type's native handles; null is its default stream. */

/* Parses "cuda:1", or "cuda" for the first device. If no plugin provides the type, accepts any index, because programs
 * may have memory there. OPDOCK_INVALID_ARGUMENT for unknown types and missing devices of a provider. */
OPDOCK_API opdock_status opdock_find_device(opdock_host *host, const char *text, DLDevice *device);

/* Lists all devices as JSON: [{"device": "cuda:0", "type", "name", "architecture", "driver", "uuid", "memory",
 * "compute_units", "warp_size", "shared_memory", "cache"}]; for a type whose provider fails or counts none, {"type",
 * "problem"}. Opens the plugins that provide devices. */
OPDOCK_API opdock_status opdock_devices(opdock_host *host, char **json);

/* Allocates memory aligned to 256 bytes, in stream order: see opdock_device_provider.allocate and free. */
OPDOCK_API opdock_status opdock_device_allocate(opdock_host *host, DLDevice device, void *stream, uint64_t bytes,
                                                void **memory);
OPDOCK_API opdock_status opdock_device_free(opdock_host *host, DLDevice device, void *stream, void *memory);

/* Copies between device and host, or between devices of one type, in stream order: see opdock_device_provider.copy. */
OPDOCK_API opdock_status opdock_device_copy(opdock_host *host, void *to, DLDevice to_device, const void *from,
                                            DLDevice from_device, uint64_t bytes, void *stream);

/* Waits until all work queued on the stream has finished. */
OPDOCK_API opdock_status opdock_device_synchronize(opdock_host *host, DLDevice device, void *stream);

/* Measures the device time of what `work` queues on the stream, with the provider's timing events around it; waits
 * until it has finished. `work` is called once, on this thread, with the device current. If it returns a status other
 * than OPDOCK_OK, that status is returned and nothing is timed. On the CPU the time is that of `work` itself. */
OPDOCK_API opdock_status opdock_device_time(opdock_host *host, DLDevice device, void *stream,
                                            opdock_status (*work)(void *user_data), void *user_data,
                                            double *microseconds);

/* --- tuning -------------------------------------------------------------------------------------------------------
 * docs/tuning.md describes configs, their sources and the format of tune files. */

/* opdock_tune_options.strategy */
#define OPDOCK_TUNE_HALVING 0u    /* the slower half of the configs is removed after each round */
#define OPDOCK_TUNE_EXHAUSTIVE 1u /* all configs are timed the same number of times */
/* opdock_tune_options.flags */
#define OPDOCK_TUNE_COLD 1u    /* caches are flushed before each run */
#define OPDOCK_TUNE_DRY_RUN 2u /* nothing is stored, neither in this process nor in the database */
#define OPDOCK_TUNE_AGAIN 4u   /* also tune what the database already has */

typedef struct opdock_tune_options {
    uint32_t struct_size;
    uint32_t strategy; /* an OPDOCK_TUNE_ value */
    uint32_t flags;    /* OPDOCK_TUNE_ bits */
    uint32_t reserved;
    /* The implementation; null means the head of the op's chain. */
    const char *impl_id;
    /* Seconds; 0 means 10. A config that has not been timed by then cannot win. */
    double budget;
    /* Called on this thread after each step with the number of steps done, their total, and the seconds since the
     * start. If it returns 0, tuning stops with the results so far. May be null. */
    int32_t (*progress)(void *user_data, uint64_t done, uint64_t total, double seconds);
    void *user_data;
} opdock_tune_options;

/* Finds the fastest config of an implementation for calls like this one by running it with each config, and stores it
 * in the database. `args` as for a call, with data: its outputs are overwritten repeatedly; inputs that it writes are
 * restored at the end. A config never wins if its results differ from those of the config in force, or if it is not
 * clearly faster. Blocks until it is done; a host tunes one call at a time. `options` may be null.
 *
 * JSON: {"op", "impl_id", "device", "model", "architecture", "driver", "dtypes", "key", "bucketed", "database": its
 * file, "outcome": "tuned", "known" (in the database already) or "pinned" (by the tune file, which wins over the
 * database), "origin", "before": RUN and its "source", "best": RUN, "gain": before / best, "tried": [RUN], "complete",
 * "seconds", "kept", "problem": why it was not kept}; RUN is {"config", "outcome": "timed", "refused" (declined
 * or failed), "wrong" (computes something else) or "left out" (the time was up), "microseconds" (median of one run),
 * "spread" (between the quartiles, as a fraction), "samples", "reason": why it was not timed}. OPDOCK_UNSUPPORTED when
 * there is nothing to tune. */
OPDOCK_API opdock_status opdock_tune(opdock_op *op, const opdock_args *args, const opdock_tune_options *options,
                                     char **json);

/* Returns OPDOCK_FAILED, with the reason in opdock_last_error, if results of opdock_tune could not be stored: the
 * database is not writable, or its folder belongs to another user. Creates both if missing. For programs that tune many
 * calls: opdock_tune makes this check too, once for each. */
OPDOCK_API opdock_status opdock_tune_check(opdock_host *host);

/* Returns the database's entries for the present implementations and devices as a tune file whose sections pin them.
 * Null `op` or `impl_id`: all. */
OPDOCK_API opdock_status opdock_tune_export(opdock_host *host, const char *op, const char *impl_id, char **yaml);

/* The reverse of opdock_tune_export: stores the pinned configs of `yaml`, a tune file called `name` in messages, in the
 * database, for present implementations and devices whose plugin's tune file has configs for the same dtypes; a warning
 * lists what is left out. Sets *count to the number of configs. If an entry is invalid, returns
 * OPDOCK_INVALID_TUNE_FILE with every problem and stores nothing. */
OPDOCK_API opdock_status opdock_tune_import(opdock_host *host, const char *yaml, const char *name, uint64_t *count);

/* Merges tune files: sections for the same implementations, devices and dtypes are joined, and the pinned entries of
 * later texts win. One text may be a FlagGems tune_configs.yaml; it is converted to opdock's grammar. `names` are for
 * messages. *warnings has a line for each entry that was left out, or is null. Needs no host. */
OPDOCK_API opdock_status opdock_tune_merge(const char *const *texts, const char *const *names, uint32_t count,
                                           char **yaml, char **warnings);

/* --- counting ----------------------------------------------------------------------------------------------------- */

/* Number of calls that an implementation served in this process, without prepared calls. OPDOCK_UNKNOWN_OP or
 * OPDOCK_INVALID_ARGUMENT if there is no such op or implementation. */
OPDOCK_API opdock_status opdock_served_count(opdock_host *host, const char *op, const char *impl_id, uint64_t *count);

/* Immediately restores implementations that were removed from their chains after failures; some return by themselves
 * (docs/policy.md, retry_failed). Null `op` or `impl_id` means all; OPDOCK_UNKNOWN_OP or OPDOCK_INVALID_ARGUMENT if
 * there is none of that name. */
OPDOCK_API opdock_status opdock_reset_health(opdock_host *host, const char *op, const char *impl_id);

/* The table of an extension that an implementation offers, such as its vendor's "acme.counters"; *table is null if it
 * has none of this name. Opens its plugin, unless the policy in force denies its vendor (OPDOCK_UNSUPPORTED). For the
 * table's lifetime see opdock_host_api.get_extension. OPDOCK_UNKNOWN_OP or OPDOCK_INVALID_ARGUMENT if there is no such
 * op or implementation. */
OPDOCK_API opdock_status opdock_find_extension(opdock_host *host, const char *op, const char *impl_id, const char *name,
                                               const void **table);

/* Queries plugins again for what they answered before: `available`, number and properties of devices. */
OPDOCK_API opdock_status opdock_refresh_availability(opdock_host *host);

#ifdef __cplusplus
}
#endif

#endif
