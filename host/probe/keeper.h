/* The process that a host starts keeps the one in which the plugin's code runs. */
#ifndef OPDOCK_PROBE_KEEPER_H
#define OPDOCK_PROBE_KEEPER_H

#include <stdint.h>

/* Returns in a child; the calling process stays behind as its keeper and ends as the child ends. `most_memory` is how
 * much memory the child and those below it may hold, in bytes, and then they are few; 0 for no limit. Returns whether
 * the child is in a PID namespace of its own, with which everything that it started ends. Where no process can be
 * started it returns in the caller. */
int continue_in_kept_process(uint64_t most_memory);

#endif
