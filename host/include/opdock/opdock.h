/* libopdock for embedding programs, in C. opdock/opdock.hpp is C++20 on top of this and what most programs want.
 *
 *   opdock_host *host;
 *   opdock_op *rmsnorm;
 *   opdock_open(NULL, &host);
 *   opdock_find_op(host, "rmsnorm_fwd", &rmsnorm);
 *   opdock_call_op(rmsnorm, &args);
 *   opdock_close(host);
 *
 * Three depths of calling, each cheaper than the one before: opdock_call_by_name looks the op up and validates;
 * opdock_call_op validates; opdock_prepared_run does neither, because opdock_prepare did.
 *
 * Every function returns a status: a plugin's own (opdock/abi/status.h) or one of those below. Where it is not
 * OPDOCK_OK, opdock_last_error() of the same thread says what failed, what was expected, what came and what to do.
 * Functions are safe to call on any thread, concurrently, unless they say otherwise. Handles belong to the host and
 * live as long as it. Strings handed out by `char **` are the caller's and freed with opdock_string_free. Nothing else
 * changes hands.
 *
 * Arguments are validated, except pointers: a null that is not called optional is undefined. */
#ifndef OPDOCK_OPDOCK_H
#define OPDOCK_OPDOCK_H

#include "opdock/plugin.h"

#define OPDOCK_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Statuses of the host itself, beside those of plugins. */
#define OPDOCK_UNKNOWN_OP 100        /* no plugin declares the op */
#define OPDOCK_NO_IMPLEMENTATION 101 /* declared, but no plugin implements it */
#define OPDOCK_ALL_DROPPED 102       /* implemented, but policy, device, dtypes or availability leave none */
#define OPDOCK_ALL_FAILED 103        /* every implementation that could serve the call declined or failed */
#define OPDOCK_NOT_PREPARED 104      /* the stream is being captured and the op was never resolved: prepare first */
#define OPDOCK_INVALID_POLICY 105    /* a variable, a file or a setting of a policy is wrong */
#define OPDOCK_LOAD_FAILED 106       /* a plugin that was asked for by name did not load */
#define OPDOCK_INTERNAL_ERROR 107    /* a fault of opdock's own */
#define OPDOCK_INVALID_TUNE_FILE 108 /* a tune file is wrong */
#define OPDOCK_FROZEN 109            /* the host was frozen, and this would change what serves calls */

/* The message of this thread's last status other than OPDOCK_OK; "" when there was none. Valid until the thread's next
 * call into opdock. */
OPDOCK_API const char *opdock_last_error(void);

/* "UNSUPPORTED" for OPDOCK_UNSUPPORTED, and so on; "UNKNOWN" for a number that is none of them. Static. */
OPDOCK_API const char *opdock_status_name(opdock_status status);

OPDOCK_API void opdock_string_free(char *string);

/* The ABI of this library, which may be newer than the headers a program was built with. */
OPDOCK_API void opdock_abi_version(uint32_t *major, uint32_t *minor);

/* --- opening ---------------------------------------------------------------------------------------------------- */

typedef struct opdock_host opdock_host;

/* opdock_options.flags */
#define OPDOCK_OPEN_RESCAN                                                                                             \
    1u /* try every plugin again, whatever the scan cache says, and those it keeps from being tried */
#define OPDOCK_OPEN_RETRY 2u /* try those of `modules` again that the scan cache keeps from being tried */

typedef struct opdock_options {
    uint32_t struct_size;
    /* OPDOCK_OPEN_ bits. */
    uint32_t flags;
    uint32_t n_modules;
    uint32_t reserved; /* 0 */
    /* The prefix of environment variables; null is "PLUGIN_". A program that chooses "TE_FL_" reads TE_FL_PREFER,
     * TE_FL_PLUGIN_MODULES, ... */
    const char *prefix;
    /* Plugin files or directories, absolute, searched before everything else; asked for by name in the sense of strict.
     */
    const char *const *modules;
    /* Receives every log message, such as "[opdock] [info] Op 'gelu' using ...", instead of stderr; null is stderr. A
     * message may have several lines; the last newline is not included. Called on any thread, and while the host is at
     * work: it must not call it. */
    void (*log)(void *user_data, int32_t level, const char *line);
    void *log_user_data;
    /* Memory for workspaces, and for what plugins keep (opdock/abi/allocator.h), aligned to 256; both null take the
     * device provider's. `free_workspace` of a workspace comes right after the kernel returned, with the same stream:
     * the memory must stay usable for what is queued there. Asked for workspaces also while the stream is being
     * captured; the provider is not. */
    void *(*allocate_workspace)(void *user_data, DLDevice device, void *stream, uint64_t bytes);
    void (*free_workspace)(void *user_data, DLDevice device, void *stream, void *memory);
    void *workspace_user_data;
    /* Gives what the program offers to plugins beside the host: the table of the extension `name`, or null. See
     * opdock_host_api.get_extension; opdock/abi/thread_pool.h is one. Called on any thread, often; tables are constant
     * and valid until the host is closed. May be null. */
    const void *(*get_extension)(void *user_data, const char *name);
    void *extension_user_data;
} opdock_options;

/* Reads the policy, finds and loads plugins. `options` may be null. On failure nothing stays open. */
OPDOCK_API opdock_status opdock_open(const opdock_options *options, opdock_host **host);

/* Calls the shutdown functions of plugins, newest first, and frees the host with all its ops. No call may be in
 * flight and no prepared call may be used or destroyed afterwards. Plugins stay mapped. Null is ignored. */
OPDOCK_API void opdock_close(opdock_host *host);

/* Loads one more plugin file, by its absolute path; its implementations join the chains of later calls. */
OPDOCK_API opdock_status opdock_load(opdock_host *host, const char *path);

/* Registers implementations of the program itself, as a plugin with this id would: `entry` is what a shared object
 * exports as opdock_register. `vendor` may be null. The entry finds `user_data` in its registry. */
OPDOCK_API opdock_status opdock_register_module(opdock_host *host, const char *id, const char *vendor,
                                                opdock_entry entry, void *user_data);

/* The same for implementations that the program takes away again while the host is open, such as a JIT compiler makes:
 * ops and implementations alone, neither devices nor shutdown functions. A call of one costs two atomic additions more.
 */
OPDOCK_API opdock_status opdock_register_temporary_module(opdock_host *host, const char *id, const char *vendor,
                                                          opdock_entry entry, void *user_data);

/* Takes such a module away. Waits until nothing of it runs, and destroys its plans and device states: when this
 * returns, its code and what its `user_data` points to may go. Later calls are served by others; prepared ones return
 * OPDOCK_UNSUPPORTED, and calls of an op that nobody else declares OPDOCK_UNKNOWN_OP, until somebody declares it again.
 * Work that it queued on a device is the program's to wait for. Not from inside one of its functions, which would wait
 * for itself. Of each module the host keeps some 80 KiB until it is closed, as threads may still look at what was.
 * OPDOCK_INVALID_ARGUMENT where `id` is no such module's. */
OPDOCK_API opdock_status opdock_unregister_module(opdock_host *host, const char *id);

/* --- calling ---------------------------------------------------------------------------------------------------- */

typedef struct opdock_op opdock_op;

/* An immutable decision. An op points to one at any moment; a new one takes its place as a whole. */
typedef struct opdock_target {
    opdock_status (*call)(const struct opdock_target *target, opdock_op *op, const opdock_args *args);
} opdock_target;

/* An op, found once and kept. The layouts of both are frozen. */
struct opdock_op {
    uint32_t index; /* the host's */
    uint32_t reserved;
    /* Never null; load it with acquire. */
    const opdock_target *target;
};

/* OPDOCK_UNKNOWN_OP when no plugin declares `name`; *op is then null. The same op each time. */
OPDOCK_API opdock_status opdock_find_op(opdock_host *host, const char *name, opdock_op **op);

/* Validates and runs one call: the first implementation of the op's chain, or the next when it declines or fails and
 * the policy is not strict. */
static inline opdock_status opdock_call_op(opdock_op *op, const opdock_args *args) {
    const opdock_target *target = __atomic_load_n(&op->target, __ATOMIC_ACQUIRE);
    return target->call(target, op, args);
}

OPDOCK_API opdock_status opdock_call_by_name(opdock_host *host, const char *name, const opdock_args *args);

/* The most dimensions that this library takes; a later one may take more. */
#define OPDOCK_MAX_RANK 8

typedef struct opdock_tensor_spec {
    /* The parameter's name; belongs to the host. */
    const char *name;
    /* `ndim` sizes; valid until this thread's next call of opdock_infer_outputs. */
    const int64_t *shape;
    int32_t ndim;
    DLDataType dtype;
    /* The caller may pass null for it. */
    uint32_t optional;
    /* Which parameter of the signature's outputs. */
    uint32_t parameter;
} opdock_tensor_spec;

/* Tells what the outputs of a call with these inputs and attributes look like; `args->outputs` is not read. An output
 * whose size depends on the data has the largest size that its signature allows. Writes at most `capacity` specs, each
 * of `spec_size` bytes, which is sizeof(opdock_tensor_spec), and sets *count to how many there are. */
OPDOCK_API opdock_status opdock_infer_outputs(opdock_op *op, const opdock_args *args, opdock_tensor_spec *specs,
                                              uint32_t spec_size, uint32_t capacity, uint32_t *count);

/* The parsed signature as JSON: {"op", "signature", "inputs": [{"name", "dtype": "f32" or a variable, "dims": ["...",
 * "2*n"], "optional", "list", "mut", "host"}], "outputs": [...], "attributes": [{"name", "type", "variable": the dtype
 * variable that it gives a value, or null, "optional", "default"}], "dtype_variables": [...], "dtypes": {"T": what it
 * may be}, "where": [{"left": "n%8", "operator": "==", "right": ["0"]; "in" has several}]}. */
OPDOCK_API opdock_status opdock_signature_json(opdock_op *op, char **json);

/* The same of a text (docs/signatures.md has the language). OPDOCK_INVALID_ARGUMENT names the column and what was
 * expected there. Needs no host. */
OPDOCK_API opdock_status opdock_parse_signature(const char *text, char **json);

/* --- policy ----------------------------------------------------------------------------------------------------- */

/* An immutable set of policy items, named and spelled as the environment variables without their prefix, in lower case:
 * prefer, prefer_vendor, strict, allow_vendors, deny_vendors, per_op. Items it lacks come from the layers below. */
typedef struct opdock_policy opdock_policy;

typedef struct opdock_setting {
    const char *name;
    const char *value;
} opdock_setting;

OPDOCK_API opdock_status opdock_policy_create(opdock_host *host, const opdock_setting *settings, uint32_t count,
                                              opdock_policy **policy);
OPDOCK_API void opdock_policy_release(opdock_policy *policy);

/* The policy of the program: above the environment, below scopes. Null takes it away. */
OPDOCK_API opdock_status opdock_policy_set(opdock_host *host, const opdock_policy *policy);

/* A scope of the calling thread: between push and pop its items are above all but `enforce:`. Scopes nest. */
OPDOCK_API opdock_status opdock_policy_push(opdock_host *host, const opdock_policy *policy);
OPDOCK_API opdock_status opdock_policy_pop(opdock_host *host);

/* Everything in force on the calling thread as one policy, to be pushed on a worker thread. */
OPDOCK_API opdock_status opdock_policy_effective(opdock_host *host, opdock_policy **policy);

/* Reads environment and files again. When they are wrong the old policy stays. */
OPDOCK_API opdock_status opdock_policy_reload(opdock_host *host);

/* --- prepared calls --------------------------------------------------------------------------------------------- */

/* A snapshot: implementation, config and plan for one problem. Later policy and health changes do not touch it. It
 * belongs to the library, and grows behind what is there. */
typedef struct opdock_prepared {
    uint32_t struct_size;
    /* The number of pointers that a run takes: those of the tensors that prepare was given, in that order, args->inputs
     * and then args->outputs, and null for those that were null. A longer form of the op's signature, declared before
     * or after, changes nothing of it. */
    uint32_t n_data;
    opdock_kernel kernel;
    const opdock_problem *problem;
    uint64_t workspace_size;
    /* Each pointer of a run is aligned to this many bytes; 0: to the size of its tensor's elements. */
    uint64_t alignment;
} opdock_prepared;

/* `args` describes the problem. Its data pointers may be null; where they are not, an implementation is chosen that
 * takes data of their alignment. `policy` may be null (the one in force). */
OPDOCK_API opdock_status opdock_prepare(opdock_op *op, const opdock_args *args, const opdock_policy *policy,
                                        opdock_prepared **prepared);
/* To be called while the host is open, which its plan belongs to. Null is ignored. */
OPDOCK_API void opdock_prepared_destroy(opdock_prepared *prepared);

/* Whether a call made now might choose differently. */
OPDOCK_API int32_t opdock_prepared_stale(const opdock_prepared *prepared);

/* The implementation's id; belongs to the prepared call. */
OPDOCK_API const char *opdock_prepared_impl(const opdock_prepared *prepared);

/* For opdock_prepared_run: a call that is not as the prepared one needs it. Allocates the workspace that it lacks,
 * where the stream is not being captured, or OPDOCK_INVALID_ARGUMENT with the reason. */
OPDOCK_API opdock_status opdock_prepared_run_incomplete(const opdock_prepared *prepared, const opdock_call *call);

/* Runs it with new pointers, and counts it. Nothing else is validated or falls back: the kernel's status comes back,
 * and so do its exceptions. Any number of threads at once. The device must be current. A call without a workspace gets
 * one from the host for the run where prepared->workspace_size is not 0, and an exception is a status then. */
static inline opdock_status opdock_prepared_run(const opdock_prepared *prepared, const opdock_call *call) {
    if (call->n_data != prepared->n_data || call->workspace_size < prepared->workspace_size)
        return opdock_prepared_run_incomplete(prepared, call);
    /* The first run may go through the host, which then steps aside. */
    return __atomic_load_n(&prepared->kernel, __ATOMIC_RELAXED)(prepared->problem, call);
}

/* After a run of this thread returned `status`, which is not OPDOCK_OK: makes opdock_last_error() what the kernel said
 * of it, or that it gave no reason. Without this call, opdock_last_error() after a run is whatever was last said on the
 * thread, also by others when the kernel says nothing. Known to remain: a sentence that a kernel left before it
 * returned OPDOCK_OK passes for that of the next failure that gives no reason. Returns `status`. */
OPDOCK_API opdock_status opdock_prepared_failed(const opdock_prepared *prepared, opdock_status status);

/* --- freezing --------------------------------------------------------------------------------------------------- */

/* Fixes who serves each op on each device there is, for each combination of dtypes, and with which configs. Opens the
 * plugins of all that is chosen. From then on nothing falls back, nobody leaves a chain for failures, scoped policies
 * mean nothing, and what would change a choice returns OPDOCK_FROZEN: policies, plugins and modules, tuning, resetting
 * health, asking for availability again, and preparing under a policy. Freezing again gives the manifest again. No
 * other thread may be changing any of that meanwhile.
 *
 * *manifest is JSON of schema opdock.frozen/1: {"schema", "digest", "choices": [{"op", "device": its type, "model",
 * "dtypes": ["bf16,f32"], "impl_id", "plugin", "build_id", "configs": a digest of the tune file and of what the
 * database has, "" without configs}]}. Two digests are the same exactly when the choices are, whatever the machine.
 *
 * With `expected`, the manifest of another host, OPDOCK_INVALID_POLICY with the differences where what is chosen here
 * is not what it has, and the host is not frozen. May be null. */
OPDOCK_API opdock_status opdock_freeze(opdock_host *host, const char *expected, char **manifest);

/* --- looking --------------------------------------------------------------------------------------------------------
 */

/* Everything a person or a tool wants to know, as JSON of schema opdock.plugin-ls/1: host, policy with sources, search
 * paths and what went wrong there, plugins with the reasons of those rejected, ops with implementations and chains.
 * docs/plugin-ls-json.md has every key. */
OPDOCK_API opdock_status opdock_describe(opdock_host *host, char **json);

/* The decision for one key, as JSON: {"op", "device", "dtypes", "strict", "order", "order_source", "chain": [impl_id],
 * "dropped": [{"impl_id", "rule", "reason"}], "kept": [{"impl_id", "rule"}]}. `device` is "cpu" or "cuda:1"; null takes
 * "cpu:0". `dtypes` is "bf16,f32" for the signature's variables in order, or null for all implementations whatever
 * their dtypes. `policy` may be null. */
OPDOCK_API opdock_status opdock_explain(opdock_host *host, const char *op, const char *device, const char *dtypes,
                                        const opdock_policy *policy, char **json);

/* The decision for one call, as opdock_explain has it for one key, and with "configs", one for each implementation of
 * the chain that has knobs: {"impl_id", "config": {"block": 256}, "source": "pinned", "database", "heuristic function",
 * "heuristic of the tune file" or "defaults", "origin", "dtypes", "key": "n=4096", "bucketed": "n: log2", "candidates":
 * how many configs there are to tune, "tune_file", "refused"}. "refused" says why it would not take the call; the
 * other keys are then absent. `args` as for opdock_prepare. */
OPDOCK_API opdock_status opdock_explain_call(opdock_op *op, const opdock_args *args, const opdock_policy *policy,
                                             char **json);

/* What `plugin-ls --check` says of one plugin file under this environment's settings, as JSON: {"path", "status": "ok",
 * "rejected" or "quarantined" (hosts do not try it again), "code", "reason", "note": {...} or null, "warnings": [...],
 * "build_id", "linkage": {"exports", "libraries", "search_paths", "versions", "relocates_text"} or null}. Runs none of
 * the file's code. Needs no open host. PLUGIN_SCAN_CACHE has what hosts learnt of it. `prefix` is that of
 * environment variables, as in opdock_options; null is "PLUGIN_". */
OPDOCK_API opdock_status opdock_check_file(const char *path, const char *prefix, char **json);

/* --- devices ------------------------------------------------------------------------------------------------------
 * What a device's provider offers, for programs and tools that have no other way to its memory. A device that nobody
 * provides gives OPDOCK_UNSUPPORTED. Streams are the type's native handles; null is its default stream. */

/* "cuda:1", or "cuda" for its first, as memory of a program may be on devices that no plugin provides: of those any
 * index will do. OPDOCK_INVALID_ARGUMENT for a type that nobody knows, and for a device that its provider lacks. */
OPDOCK_API opdock_status opdock_find_device(opdock_host *host, const char *text, DLDevice *device);

/* Every device there is, as JSON: [{"device": "cuda:0", "type", "name", "architecture", "driver", "uuid", "memory",
 * "compute_units", "warp_size", "shared_memory", "cache"}]; for a type whose provider fails or counts none,
 * {"type", "problem"}. Opens the plugins that provide devices. */
OPDOCK_API opdock_status opdock_devices(opdock_host *host, char **json);

/* Memory aligned to 256 bytes, in stream order: see opdock_device_provider.allocate and free. */
OPDOCK_API opdock_status opdock_device_allocate(opdock_host *host, DLDevice device, void *stream, uint64_t bytes,
                                                void **memory);
OPDOCK_API opdock_status opdock_device_free(opdock_host *host, DLDevice device, void *stream, void *memory);

/* Between a device and the host, or between devices of one type, in stream order: see opdock_device_provider.copy. */
OPDOCK_API opdock_status opdock_device_copy(opdock_host *host, void *to, DLDevice to_device, const void *from,
                                            DLDevice from_device, uint64_t bytes, void *stream);

/* Waits until what was queued on the stream has run. */
OPDOCK_API opdock_status opdock_device_synchronize(opdock_host *host, DLDevice device, void *stream);

/* How long the device takes for what `work` queues on the stream, by the provider's timing events around it; waits
 * until it has run. The device is current while `work` is called, once, on this thread. A status of `work` other than
 * OPDOCK_OK comes back as it is, and nothing is timed. On the CPU the time is that of `work` itself. */
OPDOCK_API opdock_status opdock_device_time(opdock_host *host, DLDevice device, void *stream,
                                            opdock_status (*work)(void *user_data), void *user_data,
                                            double *microseconds);

/* --- tuning -------------------------------------------------------------------------------------------------------
 * docs/tuning.md has what configs are, where they come from and the format of tune files. */

/* opdock_tune_options.strategy */
#define OPDOCK_TUNE_HALVING 0u    /* the slower half of the configs leaves after each round */
#define OPDOCK_TUNE_EXHAUSTIVE 1u /* all configs are timed equally often */
/* opdock_tune_options.flags */
#define OPDOCK_TUNE_COLD 1u    /* caches are flushed before each run */
#define OPDOCK_TUNE_DRY_RUN 2u /* nothing is kept, in this process or in the database */
#define OPDOCK_TUNE_AGAIN 4u   /* tune also what the database has already */
#define OPDOCK_TUNE_ACROSS 8u  /* time implementations against each other, see opdock_tune */

typedef struct opdock_tune_options {
    uint32_t struct_size;
    uint32_t strategy; /* an OPDOCK_TUNE_ value */
    uint32_t flags;    /* OPDOCK_TUNE_ bits */
    uint32_t reserved;
    /* The implementation; null takes the head of the op's chain. */
    const char *impl_id;
    /* Seconds; 0 takes 10. What was not timed by then does not win. */
    double budget;
    /* Called on this thread after each step with how many of how many were made, and the seconds since the start;
     * 0 stops, with what is known by then. May be null. */
    int32_t (*progress)(void *user_data, uint64_t done, uint64_t total, double seconds);
    void *user_data;
} opdock_tune_options;

/* Finds the fastest config of an implementation for calls like this one, by running it with each, and keeps it in the
 * database. `args` as for a call, with data: its outputs are written again and again, and inputs that it writes hold in
 * the end what they held before. A config that computes something else than the one in force never wins, nor one that
 * is not clearly faster. Blocks until it is done; one at a time in a host. `options` may be null.
 *
 * JSON: {"op", "impl_id", "device", "model", "architecture", "driver", "dtypes", "key", "bucketed", "database": its
 * file, "outcome": "tuned", "known" (in the database already) or "pinned" (by the tune file, which wins over the
 * database), "origin", "before": RUN and its "source", "best": RUN, "gain": before / best, "tried": [RUN], "complete",
 * "seconds", "kept", "problem": why it was not kept}; RUN is {"config", "outcome": "timed", "refused" (declined
 * or failed), "wrong" (computes something else) or "left out" (the time was up), "microseconds" (median of one run),
 * "spread" (between the quartiles, as a fraction), "samples", "reason": why it was not timed}. OPDOCK_UNSUPPORTED when
 * there is nothing to tune.
 *
 * With OPDOCK_TUNE_ACROSS no config is searched: the implementations that may serve the call, each with its config in
 * force, are timed in turn, and which of them were the fastest is kept for `measured` in orders (docs/policy.md).
 * `impl_id` has to be null, and the strategy means nothing. JSON: {"op", "device", "model", "architecture", "driver",
 * "dtypes", "key", "bucketed", "database", "outcome": "compared", "implementations": [{"impl_id", "outcome": "timed" or
 * "refused", "config", "microseconds", "spread", "samples", "rank": 1 for the fastest and all that are as fast,
 * "reason"}], in the order of the chain, "complete", "seconds", "kept", "problem"}. OPDOCK_UNSUPPORTED when fewer than
 * two of them run. */
OPDOCK_API opdock_status opdock_tune(opdock_op *op, const opdock_args *args, const opdock_tune_options *options,
                                     char **json);

/* OPDOCK_FAILED, and opdock_last_error says why, when what opdock_tune finds could not be kept: the database cannot be
 * written, or its folder is somebody else's. Makes both where they are missing. For programs that tune many calls:
 * opdock_tune looks too, once for each. */
OPDOCK_API opdock_status opdock_tune_check(opdock_host *host);

/* What the database knows of the implementations and devices that are there, as a tune file whose sections pin it. Null
 * `op` or `impl_id`: all. */
OPDOCK_API opdock_status opdock_tune_export(opdock_host *host, const char *op, const char *impl_id, char **yaml);

/* The other way round: puts what `yaml`, a tune file called `name` in messages, pins into the database, as far as it is
 * about implementations and devices that are there, whose plugin's tune file has configs for the same dtypes; a warning
 * says what is left out. Sets *count to how many configs. OPDOCK_INVALID_TUNE_FILE with every problem, and nothing is
 * kept, when an entry is wrong. */
OPDOCK_API opdock_status opdock_tune_import(opdock_host *host, const char *yaml, const char *name, uint64_t *count);

/* Tune files as one: what is for the same implementations, devices and dtypes is joined, and the pinned entries of
 * later texts win. One text may be a FlagGems tune_configs.yaml, and comes out in opdock's grammar. `names` are for
 * messages. *warnings holds a line for each entry that was left out; null: none. Needs no host. */
OPDOCK_API opdock_status opdock_tune_merge(const char *const *texts, const char *const *names, uint32_t count,
                                           char **yaml, char **warnings);

/* --- counting ----------------------------------------------------------------------------------------------------- */

/* Counts of the calls of each op for each implementation in this process, as JSON: [{"op", "impl_id", "plugin",
 * "vendor", "served", "declined", "failed", "fallbacks": {"declined", "failed", "running", "all_dropped",
 * "all_failed"}, "shadows": {"agreed", "disagreed", "left_out"}}], for every implementation that could have been tried
 * so far. A run of a prepared call counts like a call; what declines or fails while a call is prepared counts once.
 *
 * "declined" is OPDOCK_UNSUPPORTED, from the kernel or from what is asked before it; "failed" is any other status.
 * "fallbacks" says which of "served" came to it in place of another implementation, by what became of the first one
 * that was tried: it declined, it failed, or it was running on the thread already. The last two are calls of another
 * device that were served on the CPU (fallback_to_cpu), by the status there.
 *
 * "shadows" are the calls that PLUGIN_SHADOW had compared with a second implementation; "left_out" are those for which
 * it could not be run.
 *
 * Numbers only grow until the host is closed. In a forked child all begin with 0. Threads count without locks, and what
 * is under way while this reads is counted the next time. */
OPDOCK_API opdock_status opdock_counters(opdock_host *host, char **json);

/* "served" of that for one implementation. OPDOCK_UNKNOWN_OP or OPDOCK_INVALID_ARGUMENT when there is no such op or
 * implementation of it. */
OPDOCK_API opdock_status opdock_served_count(opdock_host *host, const char *op, const char *impl_id, uint64_t *count);

/* Brings implementations back at once that left their chains after failures; some come back by themselves
 * (docs/policy.md, retry_failed). Null `op` or `impl_id` means all; OPDOCK_UNKNOWN_OP or OPDOCK_INVALID_ARGUMENT when
 * there is none of that name. */
OPDOCK_API opdock_status opdock_reset_health(opdock_host *host, const char *op, const char *impl_id);

/* The table of an extension that an implementation offers, such as its vendor's "acme.counters"; *table is null where
 * it has none of this name. Opens its plugin, unless the policy in force denies its vendor (OPDOCK_UNSUPPORTED). A
 * table is as opdock_host_api.get_extension says. OPDOCK_UNKNOWN_OP or OPDOCK_INVALID_ARGUMENT when there is no such op
 * or implementation of it. */
OPDOCK_API opdock_status opdock_find_extension(opdock_host *host, const char *op, const char *impl_id, const char *name,
                                               const void **table);

/* Asks again what plugins answered before: `available`, how many devices there are and what they are. */
OPDOCK_API opdock_status opdock_refresh_availability(opdock_host *host);

#ifdef __cplusplus
}
#endif

#endif
