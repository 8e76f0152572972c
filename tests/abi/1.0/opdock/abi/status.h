/* SPDX-License-Identifier: Apache-2.0 */
/* What every call across the ABI returns, and what each value makes the host do.
 *
 * A status travels alone; the sentence that explains it is left with `opdock_host_api.fail` (from kernels and
 * callbacks) or `opdock_registry.fail` (from the entry) just before returning. Exceptions never cross.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_STATUS_H
#define OPDOCK_ABI_STATUS_H

#include <stdint.h>

typedef int32_t opdock_status;

/* Done. */
#define OPDOCK_OK 0
/* Declined: nothing was touched. The next implementation is tried and nothing is held against this one. */
#define OPDOCK_UNSUPPORTED 1
/* The caller's mistake: returned to the caller, never falls back. */
#define OPDOCK_INVALID_ARGUMENT 2
/* Memory ran out. Returned to the caller, not counted as a failure. */
#define OPDOCK_OUT_OF_MEMORY 3
/* Failed; the outputs are undefined. Counted. The next implementation is tried if the op writes none of its inputs. */
#define OPDOCK_FAILED 4
/* Failed before anything was written. Counted. The next implementation is tried. */
#define OPDOCK_FAILED_CLEAN 5
/* The device is gone: nothing more is tried on it. */
#define OPDOCK_DEVICE_LOST 6
/* Any other number counts as OPDOCK_FAILED, and is shown as what it is. */

#endif
