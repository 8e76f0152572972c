/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the C ABI, and the rules for its growth.
 *
 * Within one major version nothing released changes: no field moves or disappears, no function changes its parameters
 * or meaning, no number is reused. Changes are additions:
 *
 *   1. Every struct that grows starts with `uint32_t struct_size`: the bytes that its writer knows. Fields are only
 *      appended, in multiples of 8 bytes, so that no size ends inside a field: a single uint32_t brings a `reserved`
 *      with it. A reader uses the prefix that both sides know and never looks past it; 0 in a new field means the
 *      behavior before it, and a field that an older reader must not miss comes with a bit of `required_flags`. A
 *      writer sets struct_size with OPDOCK_STRUCT_SIZE and the last field that it fills in, not with sizeof: tail
 *      padding must never hide a field that a later version puts there.
 *   2. These never grow, as others hold them in arrays or pass them on: opdock_call, opdock_value, opdock_attribute,
 *      opdock_text, and opdock_op, opdock_target and opdock_setting of opdock.h.
 *   3. A table of functions grows in the same way. Code that also supports hosts without a function checks for it with
 *      OPDOCK_HAS_FIELD, and does without it if it is missing.
 *   4. Unknown bits of `flags` have no effect. An object with an unknown bit in `required_flags` is omitted.
 *   5. New numbers (dtypes, types of attributes and knobs, kinds) make a host omit the op or the implementation that
 *      uses them, and nothing else of its plugin. An unknown status counts as OPDOCK_FAILED.
 *   6. An op grows by attributes with defaults, optional parameters and dtypes (op.h). A kernel is called with the
 *      parameters that its own plugin declared, whatever others declare.
 *   7. Large additions are extensions (opdock_host_api.get_extension): code that does not know a name never asks.
 *   8. A host accepts plugins of its own major version: those of its minor version or an older one always, newer ones
 *      if the plugin's note says that a host this old suffices. `abi_minor` of the registry and of the host's table is
 *      the host's version.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_VERSION_H
#define OPDOCK_ABI_VERSION_H

#include <stddef.h>
#include <stdint.h>

/* The version that a source is written for, 0x0100 for 1.0: defined by its build, before any header, else the version
 * of these headers. Later additions are hidden, so that code that compiles does not ask more of a host. */
#ifndef OPDOCK_TARGET_ABI
#define OPDOCK_TARGET_ABI 0x0100
#endif

#define OPDOCK_ABI_MAJOR 1
#if OPDOCK_TARGET_ABI == 0x0100
#define OPDOCK_ABI_MINOR 0
#else
#error "OPDOCK_TARGET_ABI: these headers have ABI 1.0, 0x0100"
#endif

/* The oldest host minor version on which objects built with these headers run; goes into their note. A plugin that is
 * useless without later additions defines it higher, before any header: older hosts then refuse the file. */
#ifndef OPDOCK_ABI_OLDEST_HOST_MINOR
#define OPDOCK_ABI_OLDEST_HOST_MINOR 0
#endif

/* The size of `type` up to and including `last`: OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size). */
#define OPDOCK_STRUCT_SIZE(type, last) ((uint32_t)(offsetof(type, last) + sizeof(((type *)0)->last)))

/* True if the writer of `*object` knew `field`. */
#define OPDOCK_HAS_FIELD(object, type, field) ((object)->struct_size >= OPDOCK_STRUCT_SIZE(type, field))

#endif
