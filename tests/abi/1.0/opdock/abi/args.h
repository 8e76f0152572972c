/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a call by an embedding program, or by a kernel that calls another op.
 *
 * Everything is borrowed until the call returns. The host validates all of it against the op's signature.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_ARGS_H
#define OPDOCK_ABI_ARGS_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/value.h"

typedef struct opdock_args {
    /* At least up to `stream`; a caller that uses nothing after it may end there, which spares it the stores. */
    uint32_t struct_size;
    /* Must be 0. */
    uint32_t flags;
    uint32_t n_inputs;  /* tensors in `inputs` */
    uint32_t n_outputs; /* tensors in `outputs` */
    uint32_t n_attributes;
    uint32_t n_lists;
    /* In signature order, lists flattened. A null pointer is an absent optional parameter; trailing optional parameters
     * may be left out. Null strides mean row-major contiguous. `mut` inputs are written through these descriptors.
     * Their device has to be there; memory of the CPU has device_id 0, as DLPack says. */
    const DLTensor *const *inputs;
    const DLTensor *const *outputs;
    /* By name or, where the name is null, by position. Those with a default and optional ones may be left out or be
     * OPDOCK_VALUE_NONE. An int is taken where a float is expected. */
    const opdock_attribute *attributes;
    void *stream;

    /* One size for each list parameter, in signature order; null when the op has none. */
    const uint32_t *list_sizes;
    /* Read only when no tensor tells the device; device_type 0 otherwise. */
    DLDevice device;
    /* Memory for the kernel, aligned to 256; null lets the host allocate what the implementation asks for, which it
     * cannot while `stream` is being captured, unless the program brought an allocator. Too little is an error. */
    void *workspace;
    uint64_t workspace_size;
} opdock_args;

#endif
