/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a call by an embedding program, or by a kernel that calls another op.
 *
 * Everything is borrowed until the call returns. The host validates all arguments against the op's signature.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_ARGS_H
#define OPDOCK_ABI_ARGS_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/value.h"

typedef struct opdock_args {
    /* At least up to `stream`; a caller that uses no later field may end there and skip their stores. */
    uint32_t struct_size;
    /* Must be 0. */
    uint32_t flags;
    uint32_t n_inputs;  /* tensors in `inputs` */
    uint32_t n_outputs; /* tensors in `outputs` */
    uint32_t n_attributes;
    uint32_t n_lists;
    /* In signature order, lists flattened. A null pointer is an absent optional parameter; trailing optional parameters
     * may be omitted. Null strides mean row-major contiguous. `mut` inputs are written through these descriptors. Their
     * device must exist; CPU memory has device_id 0, as DLPack says. */
    const DLTensor *const *inputs;
    const DLTensor *const *outputs;
    /* By name or, if the name is null, by position. Optional attributes and those with a default may be omitted or be
     * OPDOCK_VALUE_NONE. An int is accepted for a float. */
    const opdock_attribute *attributes;
    void *stream;

    /* One size for each list parameter, in signature order; null when the op has none. */
    const uint32_t *list_sizes;
    /* Read only if no tensor determines the device; device_type 0 otherwise. */
    DLDevice device;
    /* Memory for the kernel, aligned to 256. If it is null, the host allocates what the implementation asks for; while
     * `stream` is being captured, that needs an allocator from the program. Too little memory is an error. */
    void *workspace;
    uint64_t workspace_size;
} opdock_args;

#endif
