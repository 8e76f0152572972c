/* The registry that the probe passes to a plugin's entry: it judges nothing and sends everything on. */
#ifndef OPDOCK_PROBE_RECORDER_H
#define OPDOCK_PROBE_RECORDER_H

#include "opdock/plugin.h"

/* Runs the entry; sends its calls and its result. */
void record_registration(opdock_entry entry);

/* Calls the shutdown functions that a successful entry registered, newest first. */
void run_shutdowns(void);

#endif
