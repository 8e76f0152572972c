/* SPDX-License-Identifier: Apache-2.0 */
/* The host's services for kernels and callbacks. Valid as long as the process; one table per opened host.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_HOST_H
#define OPDOCK_ABI_HOST_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/args.h"
#include "opdock/abi/problem.h"
#include "opdock/abi/status.h"

#define OPDOCK_LOG_DEBUG 0
#define OPDOCK_LOG_INFO 1
#define OPDOCK_LOG_WARNING 2
#define OPDOCK_LOG_ERROR 3

struct opdock_device_properties;

typedef struct opdock_host_api {
    uint32_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved;
    /* For the host only. */
    const void *host_data;

    /* [any thread] Writes one line to the host's log. `level` is an OPDOCK_LOG_ value; `message` is UTF-8, copied. */
    void (*log)(const struct opdock_host_api *host, int32_t level, const char *message);

    /* [any thread] Leaves the message that explains `status` for the caller of this thread, and returns `status`, so
     * that a kernel can end with `return host->fail(host, OPDOCK_UNSUPPORTED, "n must be even");`. `message` is UTF-8,
     * copied; null leaves none. The last call before returning counts. */
    opdock_status (*fail)(const struct opdock_host_api *host, opdock_status status, const char *message);

    /* [any thread] Returns the table of an extension, or null if neither this host nor its program has it, or after the
     * host was closed. A table starts with `uint32_t struct_size` and grows as other structs do; it is constant and
     * valid until the host is closed. Request it in a kernel or callback, each time: it is null while a plugin is being
     * opened, and in its entry. Names that begin with "opdock." are opdock's (allocator.h, communicator.h,
     * completion.h, composite.h, thread_pool.h); others begin with their vendor's name, such as "acme.counters". */
    const void *(*get_extension)(const struct opdock_host_api *host, const char *name);

    /* [any thread, inside a kernel] Calls another op by name on behalf of `from`, the problem the kernel was given,
     * under the policy in force. Never resolves to an (op, implementation) that is already running on this thread or is
     * `from`'s own, so a composite never calls itself. Returns a plugin status: OPDOCK_UNSUPPORTED if nothing can serve
     * the op. The message is left as if by `fail`, so a kernel may return the status as it is. */
    opdock_status (*call_op)(const opdock_problem *from, const char *op, const opdock_args *args);

    /* [any thread, inside a kernel or callback that was given `problem`] The size of a dim of the plugin's own
     * signature by its name in tune files: "n"; "rows" is the number of elements that `...` stands for (1 without one).
     * For a dim that each tensor of a list has separately, the sum over the list. -1 if there is no such dim. */
    int64_t (*dim)(const opdock_problem *problem, const char *name);

    /* [any thread] The device's properties as reported once by its provider; valid until the host is closed. Null if
     * the device does not exist, if no plugin provides it, or if the provider failed to report them. */
    const struct opdock_device_properties *(*device_properties)(const struct opdock_host_api *host, DLDevice device);
} opdock_host_api;

#endif
