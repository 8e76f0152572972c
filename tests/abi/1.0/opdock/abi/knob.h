/* SPDX-License-Identifier: Apache-2.0 */
/* A tunable integer of a kernel. The host passes a kernel one value for each knob of its implementation, in
 * `opdock_problem.knobs`.
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_KNOB_H
#define OPDOCK_ABI_KNOB_H

#include <stdint.h>

#define OPDOCK_KNOB_INT 1u
#define OPDOCK_KNOB_BOOL 2u /* 0 or 1 */
/* One of `choices`; the value is the index of the choice, from 0. */
#define OPDOCK_KNOB_CHOICE 3u

typedef struct opdock_knob {
    uint32_t struct_size;
    /* OPDOCK_KNOB_INT, OPDOCK_KNOB_BOOL or OPDOCK_KNOB_CHOICE */
    uint32_t type;
    /* Unique within the implementation; the name in tune files. Copied. */
    const char *name;
    /* The range, both ends included. For OPDOCK_KNOB_CHOICE: within 0 to the number of choices minus one. */
    int64_t minimum;
    int64_t maximum;
    int64_t default_value;
    /* One sentence, or null. Copied. */
    const char *doc;
    /* For OPDOCK_KNOB_CHOICE: the names in tune files, separated by commas: "none,cpasync,tma". All must differ, and
     * none may be a number, true or false; one may be empty, as in ",unroll". Null for other types. Copied. */
    const char *choices;
} opdock_knob;

#endif
