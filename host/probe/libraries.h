/* The libraries that come into the process with a plugin. A host that knows the plugin from its cache tries it again
 * when one of them is gone or was changed. */
#ifndef OPDOCK_PROBE_LIBRARIES_H
#define OPDOCK_PROBE_LIBRARIES_H

/* To be called before the plugin is opened: libraries that are there already do not count. */
void remember_libraries(void);

/* Sends a record for each that came since, but for the file with this name, the plugin. */
void send_libraries(const char *plugin);

#endif
