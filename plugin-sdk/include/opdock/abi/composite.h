/* SPDX-License-Identifier: Apache-2.0 */
/* An extension: kernels composed of other ops, which are prepared in advance.
 *
 * opdock_host_api.call_op resolves and validates the op at each run, and is refused during stream capture unless the op
 * was called before. A composite that prepares its parts when its plan is made avoids both, and the parts' workspaces
 * belong to its own:
 *
 *     plan_create     composite->prepare(problem, "rmsnorm_fwd", &args, &plan->norm, &plan->norm_bytes);
 *     workspace_size  *bytes = plan->norm_bytes;
 *     kernel          opdock_call part = {...};   (pointers, call->stream, call->workspace, plan->norm_bytes)
 *                     return composite->run(problem, plan->norm, &part);
 *     plan_destroy    composite->release(host, plan->norm);
 *
 * Provided by the host; see opdock_host_api.get_extension. Since ABI 1.0. */
#ifndef OPDOCK_ABI_COMPOSITE_H
#define OPDOCK_ABI_COMPOSITE_H

#include <stdint.h>

#include "opdock/abi/args.h"
#include "opdock/abi/call.h"
#include "opdock/abi/host.h"
#include "opdock/abi/problem.h"
#include "opdock/abi/status.h"
#include "opdock/abi/version.h"

#define OPDOCK_COMPOSITE "opdock.composite"

/* A prepared call of another op. */
typedef struct opdock_part opdock_part;

typedef struct opdock_composite {
    uint32_t struct_size;
    uint32_t reserved;

    /* [any thread, inside plan_create of `from`; elsewhere the part would be made again at each run] Chooses an
     * implementation of `op` under the policy in force, with config and plan, for tensors on the device of `from`;
     * there is no fallback later. `args` describes the tensors as for a call; data pointers may be null, and its stream
     * and workspace are not read. Never chooses an implementation that is being prepared or run on this thread. Sets
     * *workspace_size to the bytes that a run needs. Returns a plugin status, with its message left as if by `fail`;
     * *part is null unless it is OPDOCK_OK. */
    opdock_status (*prepare)(const opdock_problem *from, const char *op, const opdock_args *args, opdock_part **part,
                             uint64_t *workspace_size);

    /* [any thread, concurrently, inside a kernel of `from`] Runs the part on new pointers: `call->data` has those of
     * the tensors that prepare was given, inputs first, and null for tensors without elements. Nothing else is
     * validated. A workspace is aligned to 256; so if two parts share one, the second begins at a multiple of 256.
     * Without a workspace of its size the host allocates one from the device, except while the stream is being
     * captured. Returns the status of the kernel, with its message.
     */
    opdock_status (*run)(const opdock_problem *from, const opdock_part *part, const opdock_call *call);

    /* [any thread] For plan_destroy, or for plan_create if it fails. Null is ignored. */
    void (*release)(const opdock_host_api *host, opdock_part *part);
} opdock_composite;

/* Returns null if the host lacks this extension. */
static inline const opdock_composite *opdock_composite_of(const opdock_host_api *host) {
    const opdock_composite *composite = (const opdock_composite *)host->get_extension(host, OPDOCK_COMPOSITE);
    return composite != NULL && OPDOCK_HAS_FIELD(composite, opdock_composite, release) ? composite : NULL;
}

#endif
