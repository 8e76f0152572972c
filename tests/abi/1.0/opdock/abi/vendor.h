/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor as frameworks know it.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_VENDOR_H
#define OPDOCK_ABI_VENDOR_H

#include <stdint.h>

typedef struct opdock_vendor {
    uint32_t struct_size;
    /* Ignore unknown bits. */
    uint32_t flags;
    /* Printable ASCII, compared without case: "acme". Copied, as all strings here. */
    const char *name;
    /* The device as the vendor's framework calls it ("npu"), or null. */
    const char *device_name;
    /* The framework's dispatch key ("PrivateUse1"), or null. */
    const char *dispatch_key;
    /* A command that exits 0 when the vendor's device is present, or null: "acme-smi -L", its words separated by
     * blanks. Run without a shell, confined as a plugin's probe is, five seconds at most, when an implementation of
     * this vendor is first considered for a device that is not the CPU, and only when the vendor's plugin provides no
     * opdock_device_provider and nobody provides one of that type. Where it ends otherwise, they are not available
     * there. */
    const char *device_query_command;
} opdock_vendor;

#endif
