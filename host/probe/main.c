/* plugin-probe: opens one plugin, runs its entry and sends what it registered to the host that started it.
 *
 * A process of its own, so that code which crashes, hangs, exits or takes all memory costs nobody but itself. It links
 * libc alone, which makes it start in a millisecond, and lets a plugin meet nothing that the host brought. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "channel.h"
#include "confine.h"
#include "opdock/plugin.h"
#include "probe/transcript_format.h"
#include "recorder.h"
#include "traces.h"

/* A host library that a plugin links finds this and knows that it must not open a host here. */
extern const char opdock_inside_probe;
__attribute__((visibility("default"))) const char opdock_inside_probe = 1;

#ifdef PROBE_IS_SANITIZED
/* A probe that a plugin ends must end as it does without a sanitizer. */
#define SIGNALS_AS_THEY_ARE                                                                                            \
    "handle_segv=0:handle_abort=0:handle_sigill=0:handle_sigbus=0:handle_sigfpe=0:detect_leaks=0"
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return SIGNALS_AS_THEY_ARE;
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return SIGNALS_AS_THEY_ARE;
}
#endif

static const char *const usage = "usage: plugin-probe FILE [MEMORY]\n"
                                 "\n"
                                 "Started by opdock's hosts, not by people: it tries a plugin in a process of its own. "
                                 "`plugin-ls --modules FILE.so\n"
                                 "--rejected` shows what came of it.\n";

static void send_hello(void) {
    opdock_transcript_hello hello;
    hello.version = OPDOCK_TRANSCRIPT_VERSION;
    hello.vendor_size = sizeof(opdock_vendor);
    hello.device_size = sizeof(opdock_device);
    hello.op_size = sizeof(opdock_op);
    hello.impl_size = sizeof(opdock_impl);
    hello.knob_size = sizeof(opdock_knob);
    begin_record(OPDOCK_RECORD_HELLO);
    add_bytes(&hello, sizeof hello);
    end_record();
    flush_channel();
}

static void send_empty(uint8_t kind) {
    begin_record(kind);
    end_record();
}

static void probe(const char *name) {
    char path[512];
    void *library;
    void *symbol;
    opdock_entry entry;

    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", OPDOCK_PROBE_DIRECTORY, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        send_text(OPDOCK_RECORD_OPEN_FAILED, dlerror());
        return;
    }
    send_empty(OPDOCK_RECORD_OPENED);
    flush_channel();
    symbol = dlsym(library, OPDOCK_ENTRY_SYMBOL);
    if (symbol == NULL) {
        send_empty(OPDOCK_RECORD_NO_ENTRY);
        return;
    }
    memcpy(&entry, &symbol, sizeof entry);
    record_registration(entry);
    flush_channel(); /* looking at what it left behind can end this process too */
    send_changes();
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3 || strchr(argv[1], '/') != NULL || fcntl(OPDOCK_PROBE_CHANNEL, F_GETFD) < 0 ||
        fcntl(OPDOCK_PROBE_DIRECTORY, F_GETFD) < 0) {
        fputs(usage, stderr);
        return 2;
    }
    (void)fcntl(OPDOCK_PROBE_CHANNEL, F_SETFD, FD_CLOEXEC);
    send_hello();
    confine_process(argc == 3 ? strtoull(argv[2], NULL, 10) : 0);
    remember_process();
    probe(argv[1]);
    send_empty(OPDOCK_RECORD_END);
    flush_channel();
    _exit(0); /* the plugin's destructors have nothing to say */
}
