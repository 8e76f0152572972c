/* SPDX-License-Identifier: Apache-2.0 */
/* An implementation: one kernel for one op.
 *
 * State limits as data if possible: the host excludes an implementation by dtypes, architecture, contiguity or
 * alignment without calling it. Checks that depend on the machine belong in `available`, checks that depend on the
 * shapes in the kernel itself, which returns OPDOCK_UNSUPPORTED before it writes anything.
 *
 * For a problem the host calls these functions in this order, each only if it is present:
 *
 *   available        once per device
 *   supports         `device_state`, `knobs` and `plan` of the problem are null, n_knobs is 0
 *   device_init      once per device
 *   heuristic        it sees `device_state`
 *   plan_create      and the chosen `knobs`; a plan that stays null is not destroyed
 *   workspace_size   and the `plan`, as the kernel does
 *
 * The host copies all strings and knobs; function pointers and user_data must stay valid as long as the process (a
 * plugin is never unmapped). All functions are reentrant and called on any thread, concurrently. Each returns a status
 * and explains it with `opdock_host_api.fail`. The host has made the device current before each call that names one.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_IMPL_H
#define OPDOCK_ABI_IMPL_H

#include <stdint.h>

#include "opdock/abi/call.h"
#include "opdock/abi/host.h"
#include "opdock/abi/knob.h"
#include "opdock/abi/problem.h"
#include "opdock/abi/status.h"

/* kind. A vendor's plugin registers OPDOCK_KIND_VENDOR. The others are for opdock's own plugins, for plugins that the
 * operator names, for the program itself, and for ops named after the plugin's vendor ("acme.fancy"). Otherwise the
 * host omits the implementation, with a warning. */
#define OPDOCK_KIND_DEFAULT 1u
#define OPDOCK_KIND_VENDOR 2u
#define OPDOCK_KIND_REFERENCE 3u

/* flags: promises of an implementation; a host may ignore them. */
#define OPDOCK_IMPL_DETERMINISTIC 1u   /* the same inputs give the same bits, whatever runs beside it */
#define OPDOCK_IMPL_CAPTURE_SAFE 2u    /* may run while its stream is being captured into a graph */
#define OPDOCK_IMPL_BATCH_INVARIANT 4u /* a row's bits are the same whatever rows are beside it, and wherever it is */
/* required_flags: an implementation's demands on the host. A host that does not know a bit drops the implementation.
 */
#define OPDOCK_IMPL_NEEDS_CONTIGUOUS 1u /* every tensor row-major without gaps; checked before the kernel is called */

typedef struct opdock_impl {
    uint32_t struct_size;
    uint32_t flags;
    uint32_t required_flags;
    /* OPDOCK_KIND_ */
    uint32_t kind;
    /* The op's name; the same plugin must declare the op. */
    const char *op;
    /* Names the implementation within its op, in policies and logs: "vendor.acme". Convention: KIND.NAME. Like every
     * name in policies (vendors, device types, knobs): 1 to 128 printable ASCII characters, without spaces and without
     * , ; : | = ' " */
    const char *impl_id;
    /* The vendor, for kind vendor; null means the note's. Vendor lists in policies always use the note's vendor. */
    const char *vendor;
    /* Device type: "cpu", "cuda", "rocm" or the type of a plugin's opdock_device_provider. */
    const char *device;
    /* The dtypes served: tuples of the signature's dtype variables in the order of their first appearance, dtypes
     * separated by ',' and tuples by '|': "f32,f32|bf16,f32". Null means every tuple that the plugin's own declaration
     * of the op allows. */
    const char *dtypes;
    /* Architectures served, separated by '|': "sm_90a" is exact, "sm_80+" means this or newer. Null means all. */
    const char *architectures;
    /* Higher priorities go first within one token of the policy's order. */
    int32_t priority;
    /* Required alignment of the first element of every non-empty tensor, in bytes: a power of two. 0 means the dtype's
     * size. */
    uint32_t alignment;
    uint32_t n_knobs; /* at most 256 */
    /* A promise that tuned configs stay valid across rebuilds with the same number; 0 makes none. */
    uint32_t tune_version;
    const opdock_knob *const *knobs;
    void *user_data;

    opdock_kernel kernel;

    /* (optional) Returns OPDOCK_OK if this machine's `device` can run it, or OPDOCK_UNSUPPORTED with the reason. Called
     * once per device; may load a library, must not take long. */
    opdock_status (*available)(const opdock_host_api *host, void *user_data, DLDevice device);

    /* (optional) Returns OPDOCK_OK if it would serve this problem, UNSUPPORTED with the reason, or INVALID_ARGUMENT for
     * arguments that nobody could serve. Called once for each problem that a thread remembers, by prepare and by tools:
     * the kernel need not check again. */
    opdock_status (*supports)(const opdock_problem *problem);

    /* (optional) Chooses the config for untuned shapes: `knobs` holds the defaults, one per knob, and may be changed
     * within their ranges. OPDOCK_UNSUPPORTED: no opinion; the tune file's heuristics or the defaults are used. */
    opdock_status (*heuristic)(const opdock_problem *problem, int64_t *knobs);

    /* (optional, both or none) State per device, made before the first call there, such as a library handle.
     * device_fini runs when the host closes, and never in a forked child. */
    opdock_status (*device_init)(const opdock_host_api *host, void *user_data, DLDevice device, void **state);
    void (*device_fini)(const opdock_host_api *host, void *user_data, DLDevice device, void *state);

    /* (optional, both or none) State per problem, made once and used by every run of it, such as a tensor map or a
     * library's compiled graph. A plan must allow concurrent runs. plan_destroy is called on any thread, after the last
     * run of the plan has returned: when the host closes, when a prepared call is destroyed, and when a thread evicts a
     * problem for newer ones. Work that its runs queued may still be in progress, on any stream: device memory that
     * this work reads must outlive it (cudaFree waits for it, cudaFreeAsync on another stream does not). */
    opdock_status (*plan_create)(const opdock_problem *problem, void **plan);
    void (*plan_destroy)(const opdock_host_api *host, void *user_data, DLDevice device, void *plan);

    /* (optional) Returns the bytes of device memory that one run needs. */
    opdock_status (*workspace_size)(const opdock_problem *problem, uint64_t *bytes);

    /* (optional) Offers programs more than the kernel: the table of the extension `name`, or null. Programs use
     * opdock_find_extension. The rules for names and tables are those of opdock_host_api.get_extension. */
    const void *(*get_extension)(const opdock_host_api *host, void *user_data, const char *name);
} opdock_impl;

#endif
