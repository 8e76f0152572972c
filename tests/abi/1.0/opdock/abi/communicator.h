/* SPDX-License-Identifier: Apache-2.0 */
/* An extension: the communicators of a program that runs as several processes, for kernels that are collective or have
 * a collective part.
 *
 *     const opdock_communicators *all = opdock_communicators_of(problem->host);
 *     opdock_communicator one = {0};
 *     one.struct_size = OPDOCK_STRUCT_SIZE(opdock_communicator, handle);
 *     if (all == NULL || all->find(all->user_data, group, problem->device, "ncclComm_t", &one) != OPDOCK_OK)
 *         return problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, "it needs an ncclComm_t of the group");
 *
 * Provided by the program (opdock_options.get_extension); see opdock_host_api.get_extension. Since ABI 1.0. */
#ifndef OPDOCK_ABI_COMMUNICATOR_H
#define OPDOCK_ABI_COMMUNICATOR_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/host.h"
#include "opdock/abi/status.h"
#include "opdock/abi/version.h"

#define OPDOCK_COMMUNICATOR "opdock.communicator"

/* Filled in by the program, up to struct_size. */
typedef struct opdock_communicator {
    uint32_t struct_size;
    int32_t rank; /* of this process in the group: 0 .. size - 1 */
    int32_t size;
    int32_t reserved;
    void *handle; /* an ncclComm_t; a pointer to an MPI_Comm */
} opdock_communicator;

typedef struct opdock_communicators {
    uint32_t struct_size;
    uint32_t reserved;
    void *user_data;

    /* [any thread, concurrently] Finds the communicator of a group of processes by the program's name for it ("" is all
     * processes), for work on `device`. `type` is a handle type that the kernel can use: "ncclComm_t", "rcclComm_t" or
     * "MPI_Comm *". Valid until the host is closed. All processes of a group call the same ops on it, in one order; the
     * program ensures that. OPDOCK_UNSUPPORTED if there is none with this name, device and type. */
    opdock_status (*find)(void *user_data, const char *group, DLDevice device, const char *type,
                          opdock_communicator *communicator);
} opdock_communicators;

/* Returns null if the program has none. */
static inline const opdock_communicators *opdock_communicators_of(const opdock_host_api *host) {
    const opdock_communicators *all = (const opdock_communicators *)host->get_extension(host, OPDOCK_COMMUNICATOR);
    return all != NULL && OPDOCK_HAS_FIELD(all, opdock_communicators, find) ? all : NULL;
}

#endif
