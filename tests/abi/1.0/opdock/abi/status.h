/* SPDX-License-Identifier: Apache-2.0 */
/* The status that every call across the ABI returns, and the host's reaction to each value.
 *
 * A status travels alone; the message that explains it is left with `opdock_host_api.fail` (from kernels and callbacks)
 * or `opdock_registry.fail` (from the entry) just before returning. Exceptions never cross the ABI.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_STATUS_H
#define OPDOCK_ABI_STATUS_H

#include <stdint.h>

typedef int32_t opdock_status;

/* Done. */
#define OPDOCK_OK 0
/* Declined: nothing was written. The next implementation is tried, and this does not count as a failure. */
#define OPDOCK_UNSUPPORTED 1
/* The caller's mistake: returned to the caller, without fallback. */
#define OPDOCK_INVALID_ARGUMENT 2
/* Memory ran out. Returned to the caller, not counted as a failure. */
#define OPDOCK_OUT_OF_MEMORY 3
/* Failed; the outputs are undefined. Counted. The next implementation is tried if the op writes none of its inputs. */
#define OPDOCK_FAILED 4
/* Failed before anything was written. Counted. The next implementation is tried. */
#define OPDOCK_FAILED_CLEAN 5
/* The device is lost: nothing more is tried on it. */
#define OPDOCK_DEVICE_LOST 6
/* Any other number counts as OPDOCK_FAILED, and is reported as it is. */

#endif
