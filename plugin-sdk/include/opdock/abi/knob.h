/* A tunable integer of a kernel. The host gives a kernel one value for each knob of its implementation, in
 * `opdock_problem.knobs`.
 *
 * Since ABI 0.1. */
#ifndef OPDOCK_ABI_KNOB_H
#define OPDOCK_ABI_KNOB_H

#include <stdint.h>

#define OPDOCK_KNOB_INT 1u
#define OPDOCK_KNOB_BOOL 2u /* 0 or 1 */

typedef struct opdock_knob {
    uint32_t struct_size;
    /* OPDOCK_KNOB_INT or OPDOCK_KNOB_BOOL */
    uint32_t type;
    /* Unique within the implementation; as tune files spell it. Copied. */
    const char *name;
    /* The range, both ends included. */
    int64_t minimum;
    int64_t maximum;
    int64_t default_value;
    /* One sentence, or null. Copied. */
    const char *doc;
} opdock_knob;

#endif
