/* SPDX-License-Identifier: Apache-2.0 */
/* An extension: calls a function when queued work has run, so that no thread has to wait for it.
 *
 * Provided by the host; see opdock_host_api.get_extension. Since ABI 1.0. */
#ifndef OPDOCK_ABI_COMPLETION_H
#define OPDOCK_ABI_COMPLETION_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/host.h"
#include "opdock/abi/status.h"
#include "opdock/abi/version.h"

#define OPDOCK_COMPLETION "opdock.completion"

typedef struct opdock_completion {
    uint32_t struct_size;
    uint32_t reserved;

    /* [any thread] Calls `function` once, when all work queued on `stream` so far has run, on a thread of the device's
     * library or on this one, possibly before this returns. On the CPU the call is immediate. `function` must return
     * soon, throw nothing, and call neither the device's library nor the host. While `stream` is being captured, the
     * call becomes part of the graph. Returns OPDOCK_UNSUPPORTED if the device's provider lacks
     * opdock_device_provider.stream_callback. A status other than OPDOCK_OK leaves its message as if by `fail`, and
     * `function` is not called. */
    opdock_status (*notify)(const opdock_host_api *host, DLDevice device, void *stream,
                            void (*function)(void *argument), void *argument);
} opdock_completion;

/* Returns null if the host lacks this extension. */
static inline const opdock_completion *opdock_completion_of(const opdock_host_api *host) {
    const opdock_completion *completion = (const opdock_completion *)host->get_extension(host, OPDOCK_COMPLETION);
    return completion != NULL && OPDOCK_HAS_FIELD(completion, opdock_completion, notify) ? completion : NULL;
}

#endif
