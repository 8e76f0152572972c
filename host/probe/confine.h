/* Confinement of the plugin's code while it is tried. */
#ifndef OPDOCK_PROBE_CONFINE_H
#define OPDOCK_PROBE_CONFINE_H

#include <stdint.h>

/* Sanitizers map terabytes and use signals. Clang reports them differently. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROBE_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PROBE_IS_SANITIZED 1
#endif
#endif

/* Returns 0 if the kernel supports confinement but this process has reached a limit: Landlock's 16 layers, or the room
 * for filters. Otherwise best effort: an old kernel offers less. `most_memory` in bytes; 0 for device plugins, which
 * reserve much: only their keeper checks their memory. `may_use_devices`: they may be opened for writing. `is_alone`:
 * in a PID namespace, where process numbers refer only to processes that the plugin starts. */
int confine_process(uint64_t most_memory, int may_use_devices, int is_alone);

/* Installs the seccomp filter; called last by confine_process. `is_alone` and the return value as above. */
int forbid_system_calls(int is_alone, int may_use_devices);

#endif
