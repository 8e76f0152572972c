/* SPDX-License-Identifier: Apache-2.0 */
/* An extension: device memory that a plugin keeps longer than a call, for instance for packed weights of a plan.
 *
 *     plan_create   allocator->allocate(problem->host, problem->device, NULL, bytes, &plan->packed);
 *     plan_destroy  allocator->free(host, device, NULL, plan->packed);
 *
 * Runs of the plan may have queued work on other streams. Freeing on the default stream, as here, waits for that work
 * only if the default stream waits for all others, as CUDA's does unless they are non-blocking. Otherwise plan_destroy
 * has to know that the runs have finished, for instance by an event that each run records.
 *
 * The memory comes from the program if it brought an allocator (opdock_options.allocate_workspace), so that a framework
 * counts it with its own, else from the device provider. A running kernel does not need this extension: its scratch
 * memory is the workspace.
 *
 * Provided by the host; see opdock_host_api.get_extension. Since ABI 1.0. */
#ifndef OPDOCK_ABI_ALLOCATOR_H
#define OPDOCK_ABI_ALLOCATOR_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/host.h"
#include "opdock/abi/status.h"
#include "opdock/abi/version.h"

#define OPDOCK_ALLOCATOR "opdock.allocator"

typedef struct opdock_allocator {
    uint32_t struct_size;
    uint32_t reserved;

    /* [any thread] Allocates memory aligned to 256 bytes, in stream order: usable by work queued on `stream` after
     * allocate, and until the work queued there before free has run. 0 bytes give a null pointer, which free ignores.
     * Not while `stream` is being captured. A status other than OPDOCK_OK leaves its message as if by `fail`, and
     * *memory null: OPDOCK_UNSUPPORTED if nobody has memory of the device, OPDOCK_OUT_OF_MEMORY, the provider's status,
     * or OPDOCK_FAILED after the host was closed. `free` works in plan_destroy, device_fini and shutdown functions. */
    opdock_status (*allocate)(const opdock_host_api *host, DLDevice device, void *stream, uint64_t bytes,
                              void **memory);
    opdock_status (*free)(const opdock_host_api *host, DLDevice device, void *stream, void *memory);
} opdock_allocator;

/* Returns null if the host lacks this extension. */
static inline const opdock_allocator *opdock_allocator_of(const opdock_host_api *host) {
    const opdock_allocator *allocator = (const opdock_allocator *)host->get_extension(host, OPDOCK_ALLOCATOR);
    return allocator != NULL && OPDOCK_HAS_FIELD(allocator, opdock_allocator, free) ? allocator : NULL;
}

#endif
