/* The registry that a plugin's entry is given in the probe: it judges nothing and sends everything on. */
#ifndef OPDOCK_PROBE_RECORDER_H
#define OPDOCK_PROBE_RECORDER_H

#include "opdock/plugin.h"

/* Runs the entry and sends what it calls and what it returns. */
void record_registration(opdock_entry entry);

/* Calls the shutdown functions that a successful entry registered, the newest first. */
void run_shutdowns(void);

#endif
