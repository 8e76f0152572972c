/* plugin-probe: opens one plugin, runs its entry and sends what it registered to the host that started it.
 *
 * A separate process, so that code that crashes, hangs, exits or takes all memory harms only itself. The probe links
 * only libc, so that it starts in a millisecond and the plugin meets nothing that the host loaded. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "confine.h"
#include "keeper.h"
#include "libraries.h"
#include "opdock/plugin.h"
#include "probe/transcript_format.h"
#include "recorder.h"
#include "traces.h"

/* A host library linked by a plugin finds this symbol and refuses to open a host here. */
extern const char opdock_inside_probe;
__attribute__((visibility("default"))) const char opdock_inside_probe = 1;

#ifdef PROBE_IS_SANITIZED
/* Without sanitizer handlers, so that a probe killed by a plugin ends as in a normal build. */
#define SIGNALS_AS_THEY_ARE                                                                                            \
    "handle_segv=0:handle_abort=0:handle_sigill=0:handle_sigbus=0:handle_sigfpe=0:detect_leaks=0"
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return SIGNALS_AS_THEY_ARE;
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return SIGNALS_AS_THEY_ARE ":report_thread_leaks=0:atexit_sleep_ms=0";
}
#endif

static const char *const usage =
    "usage: plugin-probe FILE [MEMORY [HELD]]\n"
    "       plugin-probe " OPDOCK_PROBE_QUERY " MEMORY COMMAND [WORD]...\n"
    "\nStarted by opdock's hosts, not by users: it tries a plugin in a process of its own, or runs a vendor's command\n"
    "that looks for its device. `plugin-ls --modules FILE.so --rejected` and `plugin-ls --devices` show the results.\n";

static void send_hello(void) {
    opdock_transcript_hello hello;
    hello.version = OPDOCK_TRANSCRIPT_VERSION;
    hello.vendor_size = sizeof(opdock_vendor);
    hello.device_size = sizeof(opdock_device_provider);
    hello.op_size = sizeof(opdock_op_declaration);
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

/* Uses cpuid as hosts and libraries do; the plugin may have disabled it for the thread (ARCH_SET_CPUID). */
static void ask_processor(void) {
#if defined(__x86_64__)
    unsigned a = 0, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
#endif
}

/* Returns whether the entry was called and returned. */
static int try_plugin(const char *name) {
    char path[512];
    void *library;
    void *symbol;
    opdock_entry entry;
    struct timespec now;

    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", OPDOCK_PROBE_DIRECTORY, name);
    remember_libraries();
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        send_text(OPDOCK_RECORD_OPEN_FAILED, dlerror());
        return 0;
    }
    send_empty(OPDOCK_RECORD_OPENED);
    flush_channel();
    symbol = dlsym(library, OPDOCK_ENTRY_SYMBOL);
    if (symbol == NULL) {
        send_empty(OPDOCK_RECORD_NO_ENTRY);
        return 0;
    }
    memcpy(&entry, &symbol, sizeof entry);
    record_registration(entry);
    flush_channel();                            /* inspecting what the plugin left may end this process too */
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* as hosts do; plugins may disable it (PR_SET_TSC) */
    ask_processor();
    send_changes();
    send_libraries(path);
    flush_channel();
    return 1;
}

static int count_threads(void) {
    struct stat threads; /* each thread is a folder, and ".." is a link as well */
    return stat("/proc/self/task", &threads) == 0 ? (int)threads.st_nlink - 2 : -2;
}

/* Waits up to 0.25 s for threads that the plugin started: a thread that crashes then would crash the host. */
static void wait_for_threads(int before) {
    const long most = 250000000;
    struct timespec moment = {0, 50000};
    long waited;
    for (waited = 0; waited < most && count_threads() > before; waited += moment.tv_nsec) {
        moment.tv_nsec = moment.tv_nsec < 2500000 ? 2 * moment.tv_nsec : 5000000;
        (void)nanosleep(&moment, NULL);
    }
}

/* Uses enough CPU time for a CPU-time timer to send its signal. */
static void compute_a_moment(void) {
    const clock_t end = clock() + CLOCKS_PER_SEC / 50;
    while (clock() < end) {
    }
}

/* True if the timer_create timer was set; fires it now, and restores it if it is periodic. */
static int goes_off(int timer) {
    struct itimerspec now;
    if (syscall(SYS_timer_gettime, timer, &now) != 0 || (now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0)) {
        return 0;
    }
    now.it_value.tv_sec = 0;
    now.it_value.tv_nsec = 1;
    return syscall(SYS_timer_settime, timer, 0, &now, NULL) == 0;
}

/* Makes each timer that the plugin set fire once. Returns whether there was one. */
static int let_timers_go_off_once(void) {
    static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF}; /* of ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF */
    char line[256];
    FILE *timers;
    int is_set = 0;
    int was_raised = 0;
    int timer;
    for (timer = 0; timer < 3; ++timer) {
        struct itimerval until;
        if (getitimer((__itimer_which_t)timer, &until) == 0 && timerisset(&until.it_value)) {
            (void)raise(signals[timer]);
            was_raised = 1;
        }
    }
    /* Timers of timer_create have kernel numbers, which libc does not expose. If the kernel does not list them either,
     * the first numbers are tried. */
    timers = fopen("/proc/self/timers", "re");
    while (timers != NULL && fgets(line, sizeof line, timers) != NULL) {
        if (sscanf(line, "ID: %d", &timer) == 1 && goes_off(timer)) {
            is_set = 1;
        }
    }
    for (timer = 0; timers == NULL && timer < 64; ++timer) {
        if (goes_off(timer)) {
            is_set = 1;
        }
    }
    if (timers != NULL) {
        (void)fclose(timers);
    }
    if (is_set) {
        compute_a_moment();
    }
    return is_set || was_raised;
}

/* Triggers now what the plugin left for later, not a minute later in the host: pending signals that it blocked, since
 * the host restores its own mask, and timers. A signal that ends this process would end the host. */
static void let_signals_come(void) {
    enum { rounds = 8 }; /* for periodic timers, and for timers set by handlers */
    sigset_t none;
    int round;
    sigemptyset(&none);
    for (round = 0; round < rounds; ++round) {
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (!let_timers_go_off_once()) {
            return;
        }
    }
}

/* Runs what the plugin may have left: threads beyond the `threads` that existed before, signals and timers. */
static void see_what_is_left(int threads) {
    wait_for_threads(threads);
    let_signals_come();
}

/* Forks as programs do, which runs the plugin's fork handlers. What ends the child would end theirs. */
static void fork_once(void) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        see_what_is_left(1);
        _exit(0);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status)) {
        (void)raise(WTERMSIG(status));
    }
}

/* Confines the process, or ends it before foreign code runs. Only the keeper writes to its status afterwards.
 */
static void confine_or_end(uint64_t most_memory, int may_use_devices, int is_alone) {
    if (!confine_process(most_memory, may_use_devices, is_alone)) {
        const int status = OPDOCK_PROBE_UNCONFINED;
        _exit(write(OPDOCK_PROBE_STATUS, &status, sizeof status) == sizeof status ? 1 : 2);
    }
    (void)close(OPDOCK_PROBE_STATUS);
}

/* Executes the command, with the device access of device plugins on trial and the memory limit of plugins without
 * devices. */
static int ask_for_device(uint64_t most_memory, char **command) {
    (void)fcntl(OPDOCK_PROBE_CHANNEL, F_SETFD, FD_CLOEXEC);
    (void)fcntl(OPDOCK_PROBE_DIRECTORY, F_SETFD, FD_CLOEXEC);
    confine_or_end(most_memory, 1, continue_in_kept_process(most_memory));
    (void)execv(command[0], command); /* execv, so no shell runs a file that is not a program */
    return errno == ENOENT    ? OPDOCK_PROBE_NOT_FOUND
           : errno == ENOEXEC ? OPDOCK_PROBE_NO_PROGRAM
                              : OPDOCK_PROBE_CANNOT_RUN;
}

/* Performs the whole trial of one file; ends the process if the plugin cannot be opened. */
static void *try_file(void *name) {
    int threads;
    remember_process();
    threads = count_threads();
    if (!try_plugin(name)) {
        send_empty(OPDOCK_RECORD_END);
        flush_channel();
        _exit(0);
    }
    see_what_is_left(threads);
    fork_once();
    run_shutdowns(); /* hosts call them, and plugins end their threads there */
    see_what_is_left(threads);
    return NULL;
}

/* libc reserves two signals and makes programs that it starts ignore them. In a program their default ends it. */
static void reset_signals_of_libc(void) {
    enum { FIRST = 32, LAST = 33 };
    const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } usual = {SIG_DFL, 0, NULL, 0};
    int number;
    for (number = FIRST; number <= LAST; ++number) {
        (void)syscall(SYS_rt_sigaction, number, &usual, NULL, sizeof usual.mask);
    }
}

/* A program may run its threads in real time; a plugin that never ends would then occupy the processor. */
static void leave_real_time(void) {
    const int policy = sched_getscheduler(0);
    if (policy != -1 &&
        ((policy & ~SCHED_RESET_ON_FORK) == SCHED_FIFO || (policy & ~SCHED_RESET_ON_FORK) == SCHED_RR)) {
        const struct sched_param usual = {.sched_priority = 0};
        (void)sched_setscheduler(0, SCHED_OTHER, &usual);
    }
}

int main(int argc, char **argv) {
    uint64_t most_memory;
    uint64_t most_held;
    pthread_t thread;
    int threads;
    int has_ends;
    leave_real_time();
    (void)prctl(PR_SET_TIMERSLACK, 1); /* nanosecond; overrides the program's timer slack, because timers watch here */
    reset_signals_of_libc();
    has_ends = fcntl(OPDOCK_PROBE_CHANNEL, F_GETFD) >= 0 && fcntl(OPDOCK_PROBE_DIRECTORY, F_GETFD) >= 0;
    if (has_ends && argc > 3 && strcmp(argv[1], OPDOCK_PROBE_QUERY) == 0) {
        return ask_for_device(strtoull(argv[2], NULL, 10), argv + 3);
    }
    if (!has_ends || argc < 2 || argc > 4 || strchr(argv[1], '/') != NULL) {
        fputs(usage, stderr);
        return 2;
    }
    (void)fcntl(OPDOCK_PROBE_CHANNEL, F_SETFD, FD_CLOEXEC);
    send_hello();
    most_memory = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
    most_held = argc == 4 ? strtoull(argv[3], NULL, 10) : most_memory;
    confine_or_end(most_memory, most_memory == 0, continue_in_kept_process(most_held));
    keep_channel();
    /* Run on a thread that ends before the process, like threads of hosts, so that thread-local destructors run. */
    threads = count_threads();
    if (pthread_create(&thread, NULL, try_file, argv[1]) == 0) {
        (void)pthread_join(thread, NULL);
        see_what_is_left(threads);
    } else {
        (void)try_file(argv[1]);
    }
    send_empty(OPDOCK_RECORD_END); /* the process has not ended so far, not even with 0 */
    flush_channel();
    exit(0); /* like the host's process: runs the plugin's destructors */
}
