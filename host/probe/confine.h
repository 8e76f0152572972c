/* What the plugin's code must not do to the machine while it is tried. */
#ifndef OPDOCK_PROBE_CONFINE_H
#define OPDOCK_PROBE_CONFINE_H

#include <stdint.h>

/* Best effort: an old kernel offers less. `most_memory` in bytes, 0 for no limit. */
void confine_process(uint64_t most_memory);

#endif
