#include "confine.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Known to newer kernels than the headers of older systems. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#define CHANGES_OF_FILES                                                                                               \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                        \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                     \
     LANDLOCK_ACCESS_FS_MAKE_SYM)

static void allow_changes_below(int ruleset, uint64_t changes, const char *path) {
    struct landlock_path_beneath_attr rule;
    const int directory = open(path, O_PATH | O_CLOEXEC);
    if (directory < 0) {
        return;
    }
    rule.allowed_access = changes;
    rule.parent_fd = directory;
    (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(directory);
}

/* Files can be read, and changed only where libraries keep what lasts no longer than a process: an entry says what the
 * plugin brings and has nothing to write. Runtimes of devices open files of /dev and /proc for writing. */
static void forbid_changes_of_files(void) {
    struct landlock_ruleset_attr attributes;
    uint64_t changes = CHANGES_OF_FILES;
    int ruleset;
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) {
        return; /* not in this kernel, or switched off */
    }
    changes |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
    changes |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
    attributes.handled_access_fs = changes;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0);
    if (ruleset < 0) {
        return;
    }
    allow_changes_below(ruleset, changes, "/dev");
    allow_changes_below(ruleset, changes, "/proc");
    allow_changes_below(ruleset, changes, "/tmp");
    (void)syscall(SYS_landlock_restrict_self, ruleset, 0);
    close(ruleset);
}

static void limit(int resource, rlim_t most) {
    struct rlimit limits;
    if (getrlimit((__rlimit_resource_t)resource, &limits) == 0 && most < limits.rlim_max) {
        limits.rlim_cur = most;
        limits.rlim_max = most;
        (void)setrlimit((__rlimit_resource_t)resource, &limits);
    }
}

void confine_process(uint64_t most_memory) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a host that is gone waits for nothing */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    limit(RLIMIT_CORE, 0);
#ifndef PROBE_IS_SANITIZED
    if (most_memory != 0) {
        /* Memory that can be written to, not addresses: runtimes reserve many more than they use. */
        limit(RLIMIT_DATA, most_memory);
    }
#else
    (void)most_memory;
#endif
    forbid_changes_of_files();
}
