/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a plugin needs, in C. Order of events:
 *
 *   1. The host finds the file, reads its note (note.h) and decides whether it can take it. No code of it runs.
 *   2. The host opens it and calls opdock_register (entry.h, registry.h), which declares ops (op.h) and registers
 *      implementations (impl.h), perhaps a device type (device.h) and a vendor (vendor.h).
 *   3. When an implementation is first considered on a device, the host asks `available`; before its first call there,
 *      `device_init`.
 *   4. For each call the host describes the problem (problem.h), asks for a config, a plan and a workspace where the
 *      implementation has them, and calls the kernel (call.h), perhaps many times and on many threads.
 *   5. When the host closes: plan_destroy, device_fini, and the functions given to register_shutdown.
 *
 * opdock/plugin.hpp is C++17 on top of this. */
#ifndef OPDOCK_PLUGIN_H
#define OPDOCK_PLUGIN_H

/* IWYU pragma: begin_exports */
#include "opdock/abi/allocator.h"
#include "opdock/abi/args.h"
#include "opdock/abi/call.h"
#include "opdock/abi/communicator.h"
#include "opdock/abi/completion.h"
#include "opdock/abi/composite.h"
#include "opdock/abi/device.h"
#include "opdock/abi/dtype.h"
#include "opdock/abi/entry.h"
#include "opdock/abi/host.h"
#include "opdock/abi/impl.h"
#include "opdock/abi/knob.h"
#include "opdock/abi/note.h"
#include "opdock/abi/op.h"
#include "opdock/abi/problem.h"
#include "opdock/abi/registry.h"
#include "opdock/abi/status.h"
#include "opdock/abi/thread_pool.h"
#include "opdock/abi/value.h"
#include "opdock/abi/vendor.h"
#include "opdock/abi/version.h"
#include "opdock/tensor.h"
/* IWYU pragma: end_exports */

#endif
