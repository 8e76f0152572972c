#include "traces.h"

#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "probe/transcript_format.h"

#define N_SIGNALS 64

static struct sigaction handlers[N_SIGNALS + 1];
static char *locale_name;
static struct stat working_directory;
static char **variables;
static uint64_t float_control;
static mode_t creation_mask;
static struct rlimit limits[RLIM_NLIMITS];
static sigset_t blocked;
static int niceness;

/* Floating-point rounding and subnormal control; without the flags that operations set. */
static uint64_t float_control_now(void) {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & 0xffc0u;
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#else
    return 0;
#endif
}

static int keeps_small_numbers(uint64_t control) {
#if defined(__x86_64__)
    return (control & 0x8040u) == 0; /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
    return (control & (UINT64_C(1) << 24)) == 0;
#else
    (void)control;
    return 1;
#endif
}

static char **copy_of_environment(void) {
    size_t count = 0;
    size_t i;
    char **copy;
    while (environ != NULL && environ[count] != NULL) {
        ++count;
    }
    copy = calloc(count + 1, sizeof *copy);
    for (i = 0; copy != NULL && i < count; ++i) {
        copy[i] = strdup(environ[i]);
    }
    return copy;
}

static mode_t creation_mask_now(void) {
    const mode_t now = umask(0);
    (void)umask(now);
    return now;
}

void remember_process(void) {
    int signal_number;
    int resource;
    for (signal_number = 1; signal_number <= N_SIGNALS; ++signal_number) {
        (void)sigaction(signal_number, NULL, &handlers[signal_number]);
    }
    locale_name = strdup(setlocale(LC_ALL, NULL));
    (void)stat(".", &working_directory);
    variables = copy_of_environment();
    float_control = float_control_now();
    creation_mask = creation_mask_now();
    for (resource = 0; resource < RLIM_NLIMITS; ++resource) {
        (void)getrlimit((__rlimit_resource_t)resource, &limits[resource]);
    }
    (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
    niceness = getpriority(PRIO_PROCESS, 0);
}

static int has(char *const *list, const char *text) {
    for (; list != NULL && *list != NULL; ++list) {
        if (strcmp(*list, text) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Finds a variable of `a` that `b` lacks or has with another value. */
static int find_difference(char *const *a, char *const *b, char *name, size_t size) {
    for (; a != NULL && *a != NULL; ++a) {
        if (!has(b, *a)) {
            snprintf(name, size, "%.*s", (int)strcspn(*a, "="), *a);
            return 1;
        }
    }
    return 0;
}

static void send_change(const char *text) {
    send_text(OPDOCK_RECORD_CHANGED, text);
}

static void send_changed_handlers(void) {
    int signal_number;
    for (signal_number = 1; signal_number <= N_SIGNALS; ++signal_number) {
        struct sigaction now;
        const struct sigaction *before = &handlers[signal_number];
        if (sigaction(signal_number, NULL, &now) == 0 &&
            (now.sa_handler != before->sa_handler || now.sa_flags != before->sa_flags)) {
            const char *name = sigabbrev_np(signal_number);
            char text[64];
            snprintf(text, sizeof text, "the handler of signal %s%s", name != NULL ? "SIG" : "",
                     name != NULL ? name : "of real time");
            send_change(text);
        }
    }
}

static int has_other_limits(void) {
    int resource;
    for (resource = 0; resource < RLIM_NLIMITS; ++resource) {
        struct rlimit now;
        if (getrlimit((__rlimit_resource_t)resource, &now) == 0 &&
            (now.rlim_cur != limits[resource].rlim_cur || now.rlim_max != limits[resource].rlim_max)) {
            return 1;
        }
    }
    return 0;
}

static int blocks_other_signals(void) {
    sigset_t now;
    int signal_number;
    (void)sigprocmask(SIG_SETMASK, NULL, &now);
    for (signal_number = 1; signal_number <= N_SIGNALS; ++signal_number) {
        if (sigismember(&now, signal_number) != sigismember(&blocked, signal_number)) {
            return 1;
        }
    }
    return 0;
}

void send_changes(void) {
    struct stat directory;
    char name[128];
    char text[192];
    const uint64_t control = float_control_now();

    send_changed_handlers();
    if (locale_name == NULL || strcmp(setlocale(LC_ALL, NULL), locale_name) != 0) {
        send_change("the locale");
    }
    if (stat(".", &directory) != 0 || directory.st_ino != working_directory.st_ino ||
        directory.st_dev != working_directory.st_dev) {
        send_change("the working directory");
    }
    if (find_difference(environ, variables, name, sizeof name) ||
        find_difference(variables, environ, name, sizeof name)) {
        snprintf(text, sizeof text, "the environment variable %s", name);
        send_change(text);
    }
    if (creation_mask_now() != creation_mask) {
        send_change("the umask");
    }
    if (has_other_limits()) {
        send_change("the resource limits");
    }
    if (blocks_other_signals()) {
        send_change("the signal mask of the thread that loads it");
    }
    if (getpriority(PRIO_PROCESS, 0) != niceness) {
        send_change("the priority of the process");
    }
    if (keeps_small_numbers(float_control) != keeps_small_numbers(control)) {
        send_change("the floating-point handling of denormal numbers (linking with -ffast-math does that)");
    } else if (control != float_control) {
        send_change("the floating-point rounding or traps");
    }
}
