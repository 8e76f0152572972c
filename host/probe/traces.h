/* What code that is merely loaded should leave as it is: signal handlers and mask, the locale, the working directory,
 * the environment, umask, limits, priority, how floating point rounds. A host has them in common with the plugin. */
#ifndef OPDOCK_PROBE_TRACES_H
#define OPDOCK_PROBE_TRACES_H

void remember_process(void);

/* Sends a record for each thing that is no longer as it was. */
void send_changes(void);

#endif
