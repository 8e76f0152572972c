/* SPDX-License-Identifier: Apache-2.0 */
/* The declaration of an op: its signature.
 *
 * A plugin declares every op that it implements, standard ops (opdock/standard_ops.h) with the standard text: the
 * declaration tells the host which form of a signature the plugin's implementations know. Declarations are compared
 * after parsing. One that only appends attributes with defaults or optional parameters is compatible with the shorter
 * one; any other difference is an error that names both plugins. Unprefixed op names belong to opdock. A vendor's own
 * ops are named `vendor.name`; if two plugins declare one differently, the vendor's declaration wins. An incompatible
 * change of an op makes a new op `name@2`: until hosts support that, no name may contain an `@`.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_OP_H
#define OPDOCK_ABI_OP_H

#include <stdint.h>

typedef struct opdock_op_declaration {
    uint32_t struct_size;
    /* Ignore unknown bits. */
    uint32_t flags;
    /* A host that does not know one of these bits omits the op; see registry.h. */
    uint32_t required_flags;
    uint32_t reserved;
    /* "rmsnorm_fwd(input: T[..., n], ...) -> (...)"; the grammar is in opdock's documentation. Copied. */
    const char *signature;
    /* One paragraph for people, or null. Copied. */
    const char *doc;
} opdock_op_declaration;

#endif
