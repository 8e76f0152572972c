/* SPDX-License-Identifier: Apache-2.0 */
/* A tagged value of 16 bytes; with a name, it is one attribute of a call. Their layouts are frozen.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_VALUE_H
#define OPDOCK_ABI_VALUE_H

#include <stdint.h>

/* In a caller's arguments: use the signature's default. Kernels see it only for an absent optional
 * attribute. */
#define OPDOCK_VALUE_NONE 0u
#define OPDOCK_VALUE_INT 1u     /* i */
#define OPDOCK_VALUE_FLOAT 2u   /* f */
#define OPDOCK_VALUE_BOOL 3u    /* i, 0 or 1 */
#define OPDOCK_VALUE_STRING 4u  /* s, UTF-8; count is its length in bytes. For kernels, NUL-terminated besides */
#define OPDOCK_VALUE_DTYPE 5u   /* i, as OPDOCK_DTYPE packs it */
#define OPDOCK_VALUE_INTS 6u    /* ints[0 .. count) */
#define OPDOCK_VALUE_FLOATS 7u  /* floats[0 .. count) */
#define OPDOCK_VALUE_STRINGS 8u /* strings[0 .. count) */

/* One string of a list: UTF-8 of `size` bytes without NUL. For kernels, also NUL-terminated. */
typedef struct opdock_text {
    const char *text;
    uint64_t size;
} opdock_text;

/* Strings and lists are borrowed: from the caller for the duration of the call, from the host for a kernel (for the
 * lifetime of their problem). */
typedef struct opdock_value {
    uint32_t type;
    uint32_t count;
    union {
        int64_t i;
        double f;
        const char *s;
        const int64_t *ints;
        const double *floats;
        const opdock_text *strings;
    } as;
} opdock_value;

/* An attribute as callers pass it. A null name means the attribute at this position of the signature. */
typedef struct opdock_attribute {
    const char *name;
    opdock_value value;
} opdock_attribute;

#endif
