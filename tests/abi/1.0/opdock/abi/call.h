/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a problem: its pointers.
 *
 * The caller owns the call and what it points to; a kernel may read them until it returns. Work queued on `stream` may
 * use the memory behind the pointers after that, as usual for the device. Queued work must not read host memory such as
 * the `data` array itself.
 *
 * This struct does not grow within a major version: programs pass it directly to kernels of any age
 * (opdock_prepared_run). If a later version has to tell a kernel more about a run, the problem will carry it.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_CALL_H
#define OPDOCK_ABI_CALL_H

#include <stdint.h>

#include "opdock/abi/problem.h"
#include "opdock/abi/status.h"

typedef struct opdock_call {
    uint32_t struct_size;
    /* No flag is defined yet; ignore unknown bits. */
    uint32_t flags;
    /* Number of pointers in `data`. For a kernel: problem->n_tensors. */
    uint32_t n_data;
    uint32_t reserved; /* 0 */
    /* A pointer to the first element of each tensor of the problem, byte offsets applied. Null exactly if a tensor has
     * no elements or is absent. */
    void *const *data;
    /* The device type's native stream (such as a cudaStream_t); null is its default stream. CPU kernels ignore it. */
    void *stream;
    /* At least as many bytes as workspace_size requested, aligned to 256, uninitialized; null if none were requested.
     */
    void *workspace;
    uint64_t workspace_size;
} opdock_call;

/* [any thread, concurrently] Runs one call. It does not synchronize with the device, allocates no device memory, and
 * writes only its outputs and `mut` inputs. */
typedef opdock_status (*opdock_kernel)(const opdock_problem *problem, const opdock_call *call);

#endif
