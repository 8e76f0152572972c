/* SPDX-License-Identifier: Apache-2.0 */
/* A device type: lets the host and its tools use a device without linking its library.
 *
 * A type fixes its DLDeviceType, its native stream type and the spelling of its architectures. If several plugins
 * provide one type, one from opdock's own folder is used, else the first found. The host itself provides "cpu".
 *
 * All functions are called on any thread, concurrently, and explain a status other than OPDOCK_OK with
 * `opdock_host_api.fail`. `count` returns at most 1024; `index` is less than it. Streams and events are the type's
 * native handles; a null stream is the device's default stream.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_DEVICE_H
#define OPDOCK_ABI_DEVICE_H

#include <stdint.h>
#include <string.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/host.h"
#include "opdock/abi/status.h"

/* Filled in by the plugin. The host zeroes it first and sets struct_size; nothing may be written past that size: see
 * opdock_device_properties_give. Strings are NUL-terminated UTF-8. */
typedef struct opdock_device_properties {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t memory;       /* bytes */
    char name[128];        /* the model: "NVIDIA H200". Tuned configs of one model serve every device of it. */
    char architecture[32]; /* "sm_90" */
    char uuid[48];
    char driver[32]; /* its version */
    /* Used by heuristics; 0 if unknown. */
    uint32_t compute_units; /* multiprocessors, compute units, cores */
    uint32_t warp_size;     /* threads that run in lockstep: 32, 64; 1 on a CPU */
    uint64_t shared_memory; /* bytes of fast memory that one block of threads can have */
    uint64_t cache;         /* bytes of the last level that all compute units share */
} opdock_device_properties;

/* Copies the fields of `*from`, the plugin's struct, to `*to`, the host's: those that both know, and never more than
 * the host's struct has room for. It may be shorter than the plugin's if the host is older. */
static inline void opdock_device_properties_give(opdock_device_properties *to, const opdock_device_properties *from) {
    const uint32_t size = to->struct_size;
    memcpy(to, from, size < sizeof *from ? size : sizeof *from);
    to->struct_size = size;
}

/* flags */
#define OPDOCK_DEVICE_ORDERED_ARCHITECTURES 1u /* architectures end in a number that grows; "sm_80+" has a meaning */

typedef struct opdock_device_provider {
    uint32_t struct_size;
    uint32_t flags;
    /* A host that does not know one of these bits omits the provider; see registry.h. */
    uint32_t required_flags;
    /* The DLDeviceType of this type's tensors: DLPack's number if it has one, else a permanent number of the vendor's
     * own from 1000 to 32767. Within a process it belongs to one type, so kDLExtDev, which anybody may choose, is only
     * for trials. */
    int32_t dl_device_type;
    /* "cuda". Copied. */
    const char *device;
    /* The type of a `stream` pointer: "cudaStream_t". Copied. */
    const char *stream_type;
    void *user_data;

    opdock_status (*count)(const opdock_host_api *host, void *user_data, int32_t *count);
    opdock_status (*properties)(const opdock_host_api *host, void *user_data, int32_t index,
                                opdock_device_properties *properties);
    /* Get and set the calling thread's current device, -1 if there is none yet. A host makes the device of a call
     * current and restores the previous one afterwards, unless that was -1, which is never set. The other functions do
     * not change the current device. */
    opdock_status (*get_current)(const opdock_host_api *host, void *user_data, int32_t *index);
    opdock_status (*make_current)(const opdock_host_api *host, void *user_data, int32_t index);

    /* Memory of the device, aligned to 256, in stream order: usable by work queued on `stream` after allocate, and
     * until the work queued before free has run. `bytes` is never 0, and in free `memory` is never null. */
    opdock_status (*allocate)(const opdock_host_api *host, void *user_data, int32_t index, void *stream, uint64_t bytes,
                              void **memory);
    opdock_status (*free)(const opdock_host_api *host, void *user_data, int32_t index, void *stream, void *memory);
    /* Copies in stream order, on a stream of the device that is not kDLCPU (of `to_device` if neither is). Two devices
     * of this type may differ; a provider that cannot copy between them returns OPDOCK_UNSUPPORTED. CPU memory may be
     * pinned or not, and both sides stay unchanged until the stream has reached the copy. */
    opdock_status (*copy)(const opdock_host_api *host, void *user_data, void *to, DLDevice to_device, const void *from,
                          DLDevice from_device, uint64_t bytes, void *stream);

    /* A stream may be destroyed while its queued work has yet to run; that work still runs. */
    opdock_status (*stream_create)(const opdock_host_api *host, void *user_data, int32_t index, void **stream);
    opdock_status (*stream_destroy)(const opdock_host_api *host, void *user_data, int32_t index, void *stream);
    opdock_status (*stream_synchronize)(const opdock_host_api *host, void *user_data, int32_t index, void *stream);
    /* Sets *capturing to 1 while `stream` is being captured into a graph, else to 0. */
    opdock_status (*stream_is_capturing)(const opdock_host_api *host, void *user_data, int32_t index, void *stream,
                                         int32_t *capturing);

    /* Events measure time. One may be recorded again, and the last record counts. */
    opdock_status (*event_create)(const opdock_host_api *host, void *user_data, int32_t index, void **event);
    opdock_status (*event_destroy)(const opdock_host_api *host, void *user_data, int32_t index, void *event);
    opdock_status (*event_record)(const opdock_host_api *host, void *user_data, int32_t index, void *event,
                                  void *stream);
    /* Waits for both events and returns the milliseconds between them. */
    opdock_status (*event_elapsed)(const opdock_host_api *host, void *user_data, int32_t index, void *begin, void *end,
                                   float *milliseconds);

    /* (optional) Calls `function` once, when all work queued on `stream` so far has run, on any thread, possibly before
     * this returns; see completion.h. If the status is not OPDOCK_OK, `function` is not called. */
    opdock_status (*stream_callback)(const opdock_host_api *host, void *user_data, int32_t index, void *stream,
                                     void (*function)(void *argument), void *argument);
} opdock_device_provider;

#endif
