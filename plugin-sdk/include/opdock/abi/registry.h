/* SPDX-License-Identifier: Apache-2.0 */
/* The table with which a plugin's entry registers its ops, implementations and devices.
 *
 * Registration is a transaction. Each function checks its argument and returns OPDOCK_OK or OPDOCK_INVALID_ARGUMENT.
 * The host collects the errors, reports all of them at the end, and registers nothing of a plugin that had one. So an
 * entry may ignore the results and return OPDOCK_OK; the outcome is the same.
 *
 * [the thread that runs the entry] The registry is valid until the entry returns; later calls return
 * OPDOCK_INVALID_ARGUMENT. Everything is copied except function pointers and user_data.
 *
 * A plugin built for a newer minor version than the host's (`abi_minor`) loses only those ops, implementations and
 * device providers that use something unknown to the host: a dtype, a type of attributes or knobs, a kind, a required
 * flag. The host omits these with a warning that names them. In a plugin of the host's minor version or an older one
 * they are an error, except for an implementation's required flags, which always omit it.
 *
 * A process may open several hosts, one after the other or at once. The entry runs once for each, and so do the
 * shutdown functions: state that they share must be counted, and kernels of another host may be running.
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
    /* For the host only. */
    void *host_data;
    /* Valid as long as the process; kernels also get it in every problem. */
    const opdock_host_api *host;

    opdock_status (*register_vendor)(struct opdock_registry *registry, const opdock_vendor *vendor);
    opdock_status (*register_device_provider)(struct opdock_registry *registry, const opdock_device_provider *device);
    opdock_status (*register_op)(struct opdock_registry *registry, const opdock_op_declaration *op);
    /* The op may be declared before or after, within the same entry. */
    opdock_status (*register_impl)(struct opdock_registry *registry, const opdock_impl *impl);
    /* `shutdown` runs when the host closes, newest first, on the thread that closes it. */
    opdock_status (*register_shutdown)(struct opdock_registry *registry, void (*shutdown)(void *user_data),
                                       void *user_data);
    /* Sets the message for a status that the entry is about to return. Returns `status`. */
    opdock_status (*fail)(struct opdock_registry *registry, opdock_status status, const char *message);
    /* The program's argument to opdock_register_module for its entry; null for a plugin. */
    void *user_data;
} opdock_registry;

#endif
