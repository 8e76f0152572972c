/* SPDX-License-Identifier: Apache-2.0 */
/* An extension: threads that the program lends to CPU kernels.
 *
 * A plugin with its own threads beside those of the program would use more threads than there are processors. A kernel
 * that finds a thread pool here must use it and nothing else:
 *
 *     const opdock_thread_pool *pool = opdock_thread_pool_of(problem->host);
 *     if (pool != NULL)
 *         pool->parallel_for(pool->user_data, rows, 64, some_rows, &context);
 *
 * Provided by the program (opdock_options.get_extension); see opdock_host_api.get_extension. Since ABI 1.0. */
#ifndef OPDOCK_ABI_THREAD_POOL_H
#define OPDOCK_ABI_THREAD_POOL_H

#include <stdint.h>

#include "opdock/abi/host.h"
#include "opdock/abi/version.h"

#define OPDOCK_THREAD_POOL "opdock.thread_pool"

typedef struct opdock_thread_pool {
    uint32_t struct_size;
    uint32_t reserved;
    void *user_data;

    /* [any thread, concurrently, also within `body`] Calls `body` for chunks that together cover 0 .. items, each item
     * once, on any threads of the pool and on the calling one. Returns after all calls have returned. Every chunk
     * except the last has at least `grain` items; `grain` is 1 or more. `body` throws nothing. */
    void (*parallel_for)(void *user_data, int64_t items, int64_t grain,
                         void (*body)(void *context, int64_t begin, int64_t end), void *context);
} opdock_thread_pool;

/* Returns null if the program lends none. */
static inline const opdock_thread_pool *opdock_thread_pool_of(const opdock_host_api *host) {
    const opdock_thread_pool *pool = (const opdock_thread_pool *)host->get_extension(host, OPDOCK_THREAD_POOL);
    return pool != NULL && OPDOCK_HAS_FIELD(pool, opdock_thread_pool, parallel_for) ? pool : NULL;
}

#endif
