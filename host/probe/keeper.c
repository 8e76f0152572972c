#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/transcript_format.h"

static void write_file(const char *path, const char *text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, text, strlen(text)); /* without it the user has another number there, and the same rights */
        close(file);
    }
}

/* Has the children of this process start in a new PID namespace. A user without rights needs a user namespace for
 * that, in which it has the number that it has here. */
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

/* The first process of the namespace: all others there end with it, daemons too. It is not the one that runs the
 * plugin's code, since signals that would end other processes do not end the first. */
static pid_t start_first_process(void) {
    const pid_t first = fork();
    if (first == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_IGN);
        close(OPDOCK_PROBE_CHANNEL);
        close(OPDOCK_PROBE_DIRECTORY);
        for (;;) {
            pause();
        }
    }
    return first;
}

/* Bytes of shared memory that the process has mapped and touched, which no limit of resources counts. */
static uint64_t shared_memory_of(pid_t process) {
    static const char wanted[] = "\nRssShmem:";
    char text[4096];
    const char *found;
    ssize_t got = -1;
    int file;
    snprintf(text, sizeof text, "/proc/%d/status", (int)process);
    file = open(text, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        got = read(file, text, sizeof text - 1);
        close(file);
    }
    text[got > 0 ? got : 0] = '\0';
    found = strstr(text, wanted);
    return found != NULL ? 1024 * strtoull(found + sizeof wanted - 1, NULL, 10) : 0;
}

/* Waits for the end of the child, of which SIGCHLD tells. */
static int wait_for(pid_t child, const sigset_t *its_end, uint64_t most_memory) {
    const struct timespec moment = {0, 20000000};
    int status = 0;
    for (;;) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return status;
        }
        if (ended < 0 && errno != EINTR) {
            _exit(1);
        }
        (void)sigtimedwait(its_end, NULL, &moment);
        if (most_memory != 0 && shared_memory_of(child) > most_memory) {
            (void)kill(child, SIGKILL);
        }
    }
}

static void end_as(int status) {
    if (WIFSIGNALED(status)) {
        sigset_t all;
        sigfillset(&all);
        signal(WTERMSIG(status), SIG_DFL);
        (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
        (void)raise(WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

int continue_in_kept_process(uint64_t most_memory) {
    sigset_t its_end;
    sigset_t before;
    pid_t first = -1;
    pid_t child;
    int is_alone;

    (void)prctl(PR_SET_PDEATHSIG,
                SIGKILL); /* a host that is gone waits for nothing, and all here end with this process */
    sigemptyset(&its_end);
    sigaddset(&its_end, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &its_end, &before);
    is_alone = leave_processes();
    if (is_alone) {
        first = start_first_process();
        is_alone = first > 0;
    }
    child = fork();
    if (child > 0) {
        int status;
        close(OPDOCK_PROBE_CHANNEL); /* so that it ends with the child */
        close(OPDOCK_PROBE_DIRECTORY);
        status = wait_for(child, &its_end, most_memory);
        if (first > 0) {
            (void)kill(first, SIGKILL);
            (void)waitpid(first, NULL, 0);
        }
        end_as(status);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (is_alone && child == 0) {
        (void)setpgid(0, 0); /* kill(0) reaches the group, and the keeper is in this one */
    }
    return is_alone && child == 0;
}
