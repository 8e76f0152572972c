/* SPDX-License-Identifier: Apache-2.0 */
/* A problem: everything about a call that is known before there is data.
 *
 * A problem holds shapes, attributes, the chosen config, the device and the state prepared for it. It is constant for
 * the lifetime of a prepared call. Heuristics, plans and workspace sizes may depend on nothing else: they get a
 * problem and no pointers. `opdock_call` (call.h) holds the rest, which changes from run to run. This split makes a
 * prepared call as cheap as a bare indirect call: nothing is copied or patched, and one problem serves concurrent
 * runs.
 *
 * The host owns a problem and everything it points to. Kernels and callbacks may read it on any thread until they
 * return; plan_create must not keep a pointer to it.
 *
 * Tensors are DLPack's, in signature order, inputs before outputs, lists flattened. Strides are in elements and never
 * null. `data` and `byte_offset` of these tensors are meaningless here: take the pointers from `opdock_call.data`.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_PROBLEM_H
#define OPDOCK_ABI_PROBLEM_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include "opdock/abi/value.h"

struct opdock_host_api;

typedef struct opdock_problem {
    uint32_t struct_size;
    /* No flag is defined yet; ignore unknown bits. */
    uint32_t flags;
    uint32_t n_inputs;  /* parameters, not tensors: a list is one parameter */
    uint32_t n_outputs; /* parameters */
    uint32_t n_tensors; /* tensors of all parameters */
    uint32_t n_attributes;
    uint32_t n_knobs;
    uint32_t reserved;
    /* n_tensors pointers; null if an optional parameter is absent. */
    const DLTensor *const *tensors;
    /* n_inputs + n_outputs + 1 numbers: the tensors of parameter p are tensor_offsets[p] .. tensor_offsets[p + 1] - 1.
     * Identity for an op without lists. */
    const uint32_t *tensor_offsets;
    /* In signature order, defaults filled in; OPDOCK_VALUE_NONE for an absent optional attribute. */
    const opdock_value *attributes;
    /* The chosen config: one value per knob, in the order in which the implementation declared them. */
    const int64_t *knobs;
    /* The device of the call. The host has made it current. */
    DLDevice device;
    /* The implementation's registered user_data. */
    void *user_data;
    /* The result of device_init for this device; null without device_init. */
    void *device_state;
    /* The result of plan_create for this problem; null without plan_create and inside plan_create. */
    void *plan;
    const struct opdock_host_api *host;
    /* For the host only. */
    void *host_data;
} opdock_problem;

#endif
