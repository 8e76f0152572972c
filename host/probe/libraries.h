/* Libraries that come into the process with a plugin. If one of them was removed or changed, a host that has the plugin
 * in its cache tries the plugin again. */
#ifndef OPDOCK_PROBE_LIBRARIES_H
#define OPDOCK_PROBE_LIBRARIES_H

/* Call before the plugin is opened: libraries that are already loaded do not count. */
void remember_libraries(void);

/* Sends a record for each library loaded since, except the plugin, whose file name this is. */
void send_libraries(const char *plugin);

#endif
