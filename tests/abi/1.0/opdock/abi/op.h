/* SPDX-License-Identifier: Apache-2.0 */
/* The declaration of an op: its signature.
 *
 * A plugin declares every op that it implements, the standard ones (opdock/standard_ops.h) with the standard text: the
 * declaration tells the host which form of a signature the plugin's implementations know. Declarations are compared
 * parsed; one that only appends attributes with defaults or optional parameters is compatible with the shorter one, and
 * anything else is an error that names both plugins. Unprefixed op names belong to opdock; a vendor's own are
 * `vendor.name`, and of two plugins that declare one differently the vendor's has it. Where an op has to change in a
 * way that is not compatible, the new one is `name@2`: until a host knows what that means, no name may have an `@`.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_OP_H
#define OPDOCK_ABI_OP_H

#include <stdint.h>

typedef struct opdock_op_declaration {
    uint32_t struct_size;
    /* Ignore unknown bits. */
    uint32_t flags;
    /* A host that does not know one of these bits leaves the op out; see registry.h. */
    uint32_t required_flags;
    uint32_t reserved;
    /* "rmsnorm_fwd(input: T[..., n], ...) -> (...)"; the grammar is in opdock's documentation. Copied. */
    const char *signature;
    /* One paragraph for people, or null. Copied. */
    const char *doc;
} opdock_op_declaration;

#endif
