#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/transcript_format.h"

static void write_file(const char *path, const char *text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, text, strlen(text)); /* on failure the user has another number there, with the same rights */
        close(file);
    }
}

/* Makes children of this process start in a new PID namespace. Without privileges this needs a user namespace, in which
 * the user keeps its number. */
static int leave_processes(void) {
    const unsigned user = geteuid();
    const unsigned group = getegid();
    char map[64];
    if (unshare(CLONE_NEWPID) == 0) {
        return 1;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
        return 0;
    }
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", user, user);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", group, group);
    write_file("/proc/self/gid_map", map);
    return 1;
}

/* The first process of the namespace: all others there end with it, including daemons. It does not run the plugin's
 * code, because the first process is immune to signals that would end others. It ends with the keeper: by signal, or,
 * if the keeper ended too early for that, when *lifeline closes, which only the keeper holds.
 */
static pid_t start_first_process(int *lifeline) {
    int ends[2];
    pid_t first;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    first = fork();
    if (first == 0) {
        char none;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_IGN);
        close(OPDOCK_PROBE_CHANNEL);
        close(OPDOCK_PROBE_DIRECTORY);
        close(OPDOCK_PROBE_STATUS);
        close(ends[1]);
        while (read(ends[0], &none, 1) != 0) {
        }
        _exit(0);
    }
    close(ends[0]);
    *lifeline = ends[1];
    return first;
}

/* Reads the file as text. */
static void read_file(const char *path, char *text, size_t size) {
    ssize_t got = -1;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        got = read(file, text, size - 1);
        close(file);
    }
    text[got > 0 ? got : 0] = '\0';
}

static uint64_t kibibytes_in(const char *status, const char *name) {
    const char *const found = strstr(status, name);
    return found != NULL ? strtoull(found + strlen(name), NULL, 10) : 0;
}

/* Bytes that a process holds, according to its status or that of one of its threads; 0 for a thread that has ended.
 */
static uint64_t bytes_in(const char *status) {
    return 1024 * (kibibytes_in(status, "\nRssAnon:") + kibibytes_in(status, "\nRssShmem:") +
                   kibibytes_in(status, "\nVmPTE:")); /* page tables, including those of read-only pages */
}

/* True if the process exists although its folder in /proc cannot be read. */
static int is_hidden(const char *folder, pid_t process) {
    char path[64];
    snprintf(path, sizeof path, "%.40s/status", folder);
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 && (kill(process, 0) == 0 || errno == EPERM) &&
           faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0;
}

/* Memory in bytes held by the process with this /proc folder and by its descendants; shared memory counts for each.
 * UINT64_MAX if there are more than `left` processes, or if one cannot be inspected: a process that is not dumpable is
 * hidden if /proc is mounted with hidepid. */
static uint64_t memory_below(const char *process, int *left) {
    char path[64];
    char text[4096];
    uint64_t own;
    uint64_t sum = 0;
    DIR *threads;
    const struct dirent *thread;
    if (--*left < 0) {
        return UINT64_MAX;
    }
    snprintf(path, sizeof path, "%.40s/status", process);
    read_file(path, text, sizeof text);
    own = bytes_in(text);
    snprintf(path, sizeof path, "%.40s/task", process);
    threads = opendir(path);
    while (threads != NULL && *left >= 0 && (thread = readdir(threads)) != NULL) {
        const char *at = text;
        char *end;
        long child;
        if (thread->d_name[0] == '.') {
            continue;
        }
        if (own == 0) { /* the first thread has ended, and other threads hold the memory */
            snprintf(path, sizeof path, "%.24s/task/%.16s/status", process, thread->d_name);
            read_file(path, text, sizeof text);
            own = bytes_in(text);
        }
        snprintf(path, sizeof path, "%.24s/task/%.16s/children", process, thread->d_name);
        read_file(path, text, sizeof text);
        while (*left >= 0 && (child = strtol(at, &end, 10)) > 0) {
            snprintf(path, sizeof path, "/proc/%ld", child);
            if (is_hidden(path, (pid_t)child)) {
                *left = -1;
            } else {
                sum += memory_below(path, left);
            }
            at = end;
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return *left < 0 ? UINT64_MAX : sum + own;
}

/* Resource limits apply to each process separately, and do not count shared memory. */
static int takes_too_much(uint64_t most_memory) {
    int left = 256; /* processes: generous, since opening a plugin needs none */
    return most_memory != 0 && memory_below("/proc/self", &left) > most_memory;
}

/* Waits for the end of the child, which SIGCHLD signals. */
static int wait_for(pid_t child, const sigset_t *its_end, uint64_t most_memory) {
    const struct timespec moment = {0, 20000000};
    int status = 0;
    for (;;) {
        pid_t ended;
        (void)sigtimedwait(its_end, NULL, &moment);
        ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return status;
        }
        if (ended < 0 && errno != EINTR) {
            _exit(1);
        }
        if (takes_too_much(most_memory)) {
            (void)kill(child, SIGKILL);
        }
    }
}

/* Ends processes that the child left behind, if no namespace ends with it: orphans become the keeper's children. */
static void end_those_left(void) {
    char path[64];
    char text[4096];
    int rounds;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (rounds = 0; rounds < 1000; ++rounds) {
        const char *at = text;
        char *end;
        long child;
        read_file(path, text, sizeof text);
        if (text[0] == '\0') {
            return;
        }
        while ((child = strtol(at, &end, 10)) > 0) {
            if (*end == ' ') { /* otherwise the text was truncated inside the number */
                (void)kill((pid_t)child, SIGKILL);
            }
            at = end;
        }
        (void)waitpid(-1, NULL, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}

/* Reports to the host how the child ended, which the host may not learn from the end of this process: a program may
 * ignore SIGCHLD, or wait for all children itself. */
static void end_as(int status) {
    const ssize_t sent = write(OPDOCK_PROBE_STATUS, &status, sizeof status); /* the host does not learn of a failure */
    (void)sent;
    if (WIFSIGNALED(status)) {
        const struct rlimit nothing = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &nothing); /* the core would be written to the host's working directory */
        (void)prctl(PR_SET_DUMPABLE, 0);        /* nor passed to the program in core_pattern */
        sigset_t all;
        sigfillset(&all);
        signal(WTERMSIG(status), SIG_DFL);
        (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
        (void)kill(getpid(), WTERMSIG(status)); /* raise() rejects the signals that libc reserves */
    }
    _exit(WEXITSTATUS(status));
}

int continue_in_kept_process(uint64_t most_memory) {
    sigset_t its_end;
    sigset_t before;
    struct pollfd channel = {OPDOCK_PROBE_CHANNEL, POLLOUT, 0};
    pid_t first = -1;
    pid_t child;
    int lifeline = -1;
    int is_alone;

    (void)prctl(PR_SET_PDEATHSIG,
                SIGKILL); /* without a host nobody waits for the result, and all processes here end with this one */
    if (poll(&channel, 1, 0) > 0 && (channel.revents & POLLERR) != 0) {
        _exit(1); /* the host was gone before */
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* so that orphans become children of this process */
    sigemptyset(&its_end);
    sigaddset(&its_end, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &its_end, &before);
    is_alone = leave_processes();
    if (is_alone) {
        first = start_first_process(&lifeline);
        is_alone = first > 0;
    }
    child = fork();
    if (child > 0) {
        int status;
        close(OPDOCK_PROBE_CHANNEL); /* so that it closes when the child ends */
        close(OPDOCK_PROBE_DIRECTORY);
        status = wait_for(child, &its_end, most_memory);
        if (first > 0) {
            (void)kill(first, SIGKILL);
            (void)waitpid(first, NULL, 0);
        }
        end_those_left();
        end_as(status);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (lifeline >= 0) {
        close(lifeline);
    }
    if (is_alone && child == 0) {
        (void)setpgid(0, 0); /* kill(0) reaches the group, which includes the keeper */
    }
    return is_alone && child == 0;
}
