/* Process state that loading code must not change: signal handlers and mask, locale, working directory, environment,
 * umask, limits, priority, floating-point control. A host shares it with the plugin. */
#ifndef OPDOCK_PROBE_TRACES_H
#define OPDOCK_PROBE_TRACES_H

void remember_process(void);

/* Sends a record for each changed item. */
void send_changes(void);

#endif
