/* The version of the C ABI, and how its structs grow.
 *
 * Every struct starts with `uint32_t struct_size`: how many bytes its writer knows. Fields are only appended, so a
 * reader uses the prefix that both sides know and never looks past it. A writer sets it with OPDOCK_STRUCT_SIZE and the
 * last field it fills in, not with sizeof: tail padding must never hide a field that a later version puts there. What
 * is appended takes a multiple of 8 bytes, so that no size ends inside a field: a single uint32_t brings a `reserved`
 * with it.
 *
 * Until opdock 1.0 the major is 0 and a host takes exactly its own minor. From 1.0 on, a host takes its own major, and
 * a plugin of a newer minor when the plugin's note says that a host this old is enough.
 *
 * Since ABI 0.1. */
#ifndef OPDOCK_ABI_VERSION_H
#define OPDOCK_ABI_VERSION_H

#include <stddef.h>
#include <stdint.h>

#define OPDOCK_ABI_MAJOR 0
#define OPDOCK_ABI_MINOR 1
/* The oldest host minor that objects built with these headers run on; goes into their note. */
#define OPDOCK_ABI_OLDEST_HOST_MINOR 1

/* The size of `type` up to and including `last`: OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size). */
#define OPDOCK_STRUCT_SIZE(type, last) ((uint32_t)(offsetof(type, last) + sizeof(((type *)0)->last)))

/* Whether the writer of `*object` knew `field`. */
#define OPDOCK_HAS_FIELD(object, type, field) ((object)->struct_size >= OPDOCK_STRUCT_SIZE(type, field))

#endif
