/* SPDX-License-Identifier: Apache-2.0 */
/* An implementation: one kernel for one op.
 *
 * State limits as data where that is possible: the host drops an implementation by dtypes, architecture, contiguity or
 * alignment without calling it. What depends on the machine belongs in `available`, what depends on the shapes in the
 * kernel itself, which returns OPDOCK_UNSUPPORTED before it touches anything.
 *
 * For a problem the host asks, in this order and each only where it is there:
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

/* kind. A vendor's plugin registers OPDOCK_KIND_VENDOR. The others are for opdock's own plugins, for those that the
 * operator names, for the program itself, and for ops that bear the name of the plugin's vendor ("acme.fancy"):
 * elsewhere the host leaves the implementation out, with a warning. */
#define OPDOCK_KIND_DEFAULT 1u
#define OPDOCK_KIND_VENDOR 2u
#define OPDOCK_KIND_REFERENCE 3u

/* flags: what an implementation promises; a host may ignore them. */
#define OPDOCK_IMPL_DETERMINISTIC 1u   /* the same inputs give the same bits, whatever runs beside it */
#define OPDOCK_IMPL_CAPTURE_SAFE 2u    /* may run while its stream is being captured into a graph */
#define OPDOCK_IMPL_BATCH_INVARIANT 4u /* a row's bits are the same whatever rows are beside it, and wherever it is */
/* required_flags: what an implementation needs of the host. A host that does not know a bit drops the implementation.
 */
#define OPDOCK_IMPL_NEEDS_CONTIGUOUS 1u /* every tensor row-major without gaps; checked before the kernel is called */

typedef struct opdock_impl {
    uint32_t struct_size;
    uint32_t flags;
    uint32_t required_flags;
    /* OPDOCK_KIND_ */
    uint32_t kind;
    /* The op's name; declared by the same plugin. */
    const char *op;
    /* Names the implementation within its op, in policies and logs: "vendor.acme". Convention: KIND.NAME. As every name
     * that policies spell (vendors, device types, knobs): 1 to 128 printable ASCII characters, none of them a space or
     * one of , ; : | = ' " */
    const char *impl_id;
    /* The vendor, for kind vendor: null takes the note's. Lists of vendors in policies go by the note's in any case. */
    const char *vendor;
    /* Device type: "cpu", "cuda", "rocm" or what a plugin's opdock_device_provider brings. */
    const char *device;
    /* The dtypes served: tuples of the signature's dtype variables in the order of their first appearance, dtypes
     * separated by ',' and tuples by '|': "f32,f32|bf16,f32". Null takes every tuple that the plugin's own
     * declaration of the op allows. */
    const char *dtypes;
    /* Architectures served, separated by '|': "sm_90a" is exact, "sm_80+" means this or newer. Null takes all. */
    const char *architectures;
    /* High goes first within one token of the policy's order. */
    int32_t priority;
    /* What every non-empty tensor's first element must be aligned to, in bytes: a power of two. 0 means the dtype's
     * size. */
    uint32_t alignment;
    uint32_t n_knobs; /* at most 256 */
    /* A promise that tuned configs stay valid across rebuilds with the same number; 0 makes none. */
    uint32_t tune_version;
    const opdock_knob *const *knobs;
    void *user_data;

    opdock_kernel kernel;

    /* (optional) Whether this machine's `device` can run it: OPDOCK_OK or OPDOCK_UNSUPPORTED with the reason. Asked
     * once per device; may load a library, must not take long. */
    opdock_status (*available)(const opdock_host_api *host, void *user_data, DLDevice device);

    /* (optional) Whether it would serve this problem: OPDOCK_OK, UNSUPPORTED with the reason, or INVALID_ARGUMENT for
     * what nobody could serve. Asked once for each problem that a thread remembers, by prepare and by tools: the kernel
     * need not check it again. */
    opdock_status (*supports)(const opdock_problem *problem);

    /* (optional) The config for shapes nobody tuned: `knobs` holds the defaults, one for each knob, and may be changed
     * within the knobs' ranges. OPDOCK_UNSUPPORTED: no opinion; the tune file's heuristics or the defaults are used. */
    opdock_status (*heuristic)(const opdock_problem *problem, int64_t *knobs);

    /* (optional, both or none) State per device, made before the first call there: a library handle. device_fini runs
     * when the host closes, and never in a forked child. */
    opdock_status (*device_init)(const opdock_host_api *host, void *user_data, DLDevice device, void **state);
    void (*device_fini)(const opdock_host_api *host, void *user_data, DLDevice device, void *state);

    /* (optional, both or none) State per problem, made once and used by every run of it: a tensor map, a library's
     * compiled graph. A plan must allow concurrent runs. plan_destroy is called on any thread, when no run of the plan
     * is in progress any more: when the host closes, when a prepared call is destroyed, and when a thread forgets a
     * problem for newer ones. Work that its runs queued may still be under way, on any stream: device memory that this
     * work reads must outlive it (cudaFree waits for it, cudaFreeAsync on another stream does not). */
    opdock_status (*plan_create)(const opdock_problem *problem, void **plan);
    void (*plan_destroy)(const opdock_host_api *host, void *user_data, DLDevice device, void *plan);

    /* (optional) Bytes of device memory one run needs. */
    opdock_status (*workspace_size)(const opdock_problem *problem, uint64_t *bytes);

    /* (optional) What it offers to programs beside the kernel: the table of the extension `name`, or null. Programs ask
     * with opdock_find_extension. The rules for names and tables are those of opdock_host_api.get_extension. */
    const void *(*get_extension)(const opdock_host_api *host, void *user_data, const char *name);
} opdock_impl;

#endif
