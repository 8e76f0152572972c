/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor, as known to frameworks.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_VENDOR_H
#define OPDOCK_ABI_VENDOR_H

#include <stdint.h>

typedef struct opdock_vendor {
    uint32_t struct_size;
    /* Ignore unknown bits. */
    uint32_t flags;
    /* Printable ASCII, compared case-insensitively: "acme". Copied, like all strings here. */
    const char *name;
    /* The name of the device in the vendor's framework ("npu"), or null. */
    const char *device_name;
    /* The framework's dispatch key ("PrivateUse1"), or null. */
    const char *dispatch_key;
    /* A command that exits 0 if the vendor's device is present, or null: "acme-smi -L", its words separated by blanks.
     * Run without a shell, confined like a plugin's probe, for at most five seconds, when an implementation of this
     * vendor is first considered for a device that is not the CPU, and only if the vendor's plugin provides no
     * opdock_device_provider and nobody provides one of that type. If it ends otherwise, these implementations are
     * unavailable there. */
    const char *device_query_command;
} opdock_vendor;

#endif
