/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol a plugin exports.
 *
 *     OPDOCK_NOTE("acme", "1.2.0", "acme", "cpu", "")
 *
 *     OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) { ... }
 *
 * The entry is a pure function of the file and of the registry's `abi_minor`, by which it may register less with an
 * older host; checks of the machine belong in `opdock_impl.available`. It runs once per opened host, on the thread that
 * first needs the plugin. An entry that returns a status other than OPDOCK_OK registers nothing.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_ENTRY_H
#define OPDOCK_ABI_ENTRY_H

#include "opdock/abi/registry.h"

#ifdef __cplusplus
#define OPDOCK_ENTRY extern "C" __attribute__((visibility("default"), used))
#else
#define OPDOCK_ENTRY extern __attribute__((visibility("default"), used))
#endif

#define OPDOCK_ENTRY_SYMBOL "opdock_register"

/* The type of the entry. An embedding program may pass a function of its own to the host in the same way. */
typedef opdock_status (*opdock_entry)(opdock_registry *registry);

/* Declared here, so that an entry with another signature does not compile. */
OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry);

#endif
