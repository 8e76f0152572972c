/* What the plugin's code must not do to the machine while it is tried. */
#ifndef OPDOCK_PROBE_CONFINE_H
#define OPDOCK_PROBE_CONFINE_H

#include <stdint.h>

/* Sanitizers map terabytes and take signals for themselves. Clang says it in its own way. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROBE_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PROBE_IS_SANITIZED 1
#endif
#endif

/* Returns 0 where the kernel has what confines a process and has no more of it for this one: Landlock's 16 layers, or
 * the room for filters. Best effort otherwise: an old kernel offers less. `most_memory` in bytes; 0 for plugins of
 * devices, which reserve much: their keeper alone looks at what they hold. `may_use_devices`: open them for writing.
 * `is_alone`: in a PID namespace, where no number means another process than the ones that the plugin starts. */
int confine_process(uint64_t most_memory, int may_use_devices, int is_alone);

/* Installs the seccomp filter; confine_process calls it last. `is_alone` and what it returns as above. */
int forbid_system_calls(int is_alone, int may_use_devices);

#endif
