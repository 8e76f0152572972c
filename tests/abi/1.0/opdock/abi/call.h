/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a problem: the pointers.
 *
 * The caller owns the call and what it points to; a kernel may read it until it returns. Work queued on `stream` may
 * use the memory the pointers name after that, as usual for the device; host memory such as the `data` array itself
 * must not be read by queued work.
 *
 * This struct does not grow within a major version: programs hand it to kernels of any age with nothing in between
 * (opdock_prepared_run). What a later version has to tell a kernel about a run stands in the problem.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_CALL_H
#define OPDOCK_ABI_CALL_H

#include <stdint.h>

#include "opdock/abi/problem.h"
#include "opdock/abi/status.h"

typedef struct opdock_call {
    uint32_t struct_size;
    /* None is defined yet; ignore unknown bits. */
    uint32_t flags;
    /* How many pointers `data` has. For a kernel: problem->n_tensors. */
    uint32_t n_data;
    uint32_t reserved; /* 0 */
    /* A pointer to the first element of each tensor of the problem, byte offsets applied. Null exactly when a tensor
     * has no elements or is absent. */
    void *const *data;
    /* The device type's native stream (a cudaStream_t); null is its default stream. CPU kernels ignore it. */
    void *stream;
    /* At least as many bytes as workspace_size asked for, aligned to 256, uninitialized; null when none was asked for.
     */
    void *workspace;
    uint64_t workspace_size;
} opdock_call;

/* [any thread, concurrently] Runs one call. It does not synchronize with the device, allocates no device memory, and
 * writes its outputs and `mut` inputs only. */
typedef opdock_status (*opdock_kernel)(const opdock_problem *problem, const opdock_call *call);

#endif
