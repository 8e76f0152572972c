/* SPDX-License-Identifier: Apache-2.0 */
/* The table that a plugin's entry is given, to register what the plugin brings.
 *
 * Registration is a transaction. Each function checks its argument and returns OPDOCK_OK or OPDOCK_INVALID_ARGUMENT;
 * the host keeps every error, goes on, and in the end reports all of them and takes nothing of a plugin that had one.
 * So an entry may ignore the results and return OPDOCK_OK; the outcome is the same.
 *
 * [the thread that runs the entry] The registry is valid until the entry returns; later calls return
 * OPDOCK_INVALID_ARGUMENT. Everything is copied except function pointers and user_data.
 *
 * A plugin that is built for a newer minor than the host's (`abi_minor`) loses only the ops, implementations and device
 * providers that use what the host does not know: a dtype, a type of attributes or knobs, a kind, a required flag. The
 * host leaves those out with a warning that names them. From a plugin of the host's minor or an older one the same is
 * an error, but for required flags of an implementation, which is left out in any case.
 *
 * A process may open several hosts, one after the other or at once. The entry runs once for each, and so do the
 * shutdown functions: what they share must be counted, and kernels of another host may be running.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_REGISTRY_H
#define OPDOCK_ABI_REGISTRY_H

#include <stdint.h>

#include "opdock/abi/device.h"
#include "opdock/abi/host.h"
#include "opdock/abi/impl.h"
#include "opdock/abi/op.h"
#include "opdock/abi/status.h"
#include "opdock/abi/vendor.h"

typedef struct opdock_registry {
    uint32_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved;
    /* The host's; not for plugins. */
    void *host_data;
    /* Valid as long as the process; kernels get it again in every problem. */
    const opdock_host_api *host;

    opdock_status (*register_vendor)(struct opdock_registry *registry, const opdock_vendor *vendor);
    opdock_status (*register_device_provider)(struct opdock_registry *registry, const opdock_device_provider *device);
    opdock_status (*register_op)(struct opdock_registry *registry, const opdock_op_declaration *op);
    /* The op may be declared before or after, within the same entry. */
    opdock_status (*register_impl)(struct opdock_registry *registry, const opdock_impl *impl);
    /* `shutdown` runs when the host closes, newest first, on the thread that closes it. */
    opdock_status (*register_shutdown)(struct opdock_registry *registry, void (*shutdown)(void *user_data),
                                       void *user_data);
    /* The sentence for a status that the entry is about to return. Returns `status`. */
    opdock_status (*fail)(struct opdock_registry *registry, opdock_status status, const char *message);
    /* What a program gave opdock_register_module for its entry; null for a plugin. */
    void *user_data;
} opdock_registry;

#endif
