/* The process started by a host keeps (supervises) the process in which the plugin's code runs. */
#ifndef OPDOCK_PROBE_KEEPER_H
#define OPDOCK_PROBE_KEEPER_H

#include <stdint.h>

/* Returns in a child; the calling process stays behind as its keeper and ends the way the child ends. `most_memory` is
 * the memory limit of the child and its descendants in bytes, which also limits their number; 0 means no limit. Returns
 * whether the child is in its own PID namespace, so that everything it started ends with it. If no process can be
 * started, returns in the caller. */
int continue_in_kept_process(uint64_t most_memory);

#endif
