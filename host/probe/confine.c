#include "confine.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Known to newer kernels than the headers of older systems. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif

/* All that this file knows of the kernel's; the kernel takes zeros for what it does not know. */
struct landlock_rules {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

#define CHANGES_OF_FILES                                                                                               \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                  \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                        \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |                     \
     LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Those that the kernel knows for a file that is no folder. */
#define CHANGES_OF_ONE_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

static void allow_changes(int ruleset, uint64_t changes, const char *path) {
    struct landlock_path_beneath_attr rule;
    const int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    rule.allowed_access = changes;
    rule.parent_fd = file;
    (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(file);
}

/* Numbers of the drivers of terminals, whatever their files are called. */
struct terminal_drivers {
    unsigned majors[64];
    unsigned count;
};

static struct terminal_drivers find_terminal_drivers(void) {
    /* Consoles, /dev/tty and its like, screens of consoles, and pseudoterminals: should nobody list them. */
    struct terminal_drivers found = {{4, 5, 7, 136, 137, 138, 139, 140, 141, 142, 143}, 11};
    char line[256];
    FILE *const drivers = fopen("/proc/tty/drivers", "re"); /* name, file, number, its range, what it is */
    while (drivers != NULL && fgets(line, sizeof line, drivers) != NULL) {
        unsigned *const next = &found.majors[found.count];
        if (found.count < sizeof found.majors / sizeof *found.majors && sscanf(line, "%*s %*s %u", next) == 1) {
            ++found.count;
        }
    }
    if (drivers != NULL) {
        (void)fclose(drivers);
    }
    return found;
}

static int is_terminal(const struct terminal_drivers *terminals, const char *path) {
    struct stat status;
    unsigned i;
    if (stat(path, &status) != 0) {
        return 1; /* nobody knows */
    }
    for (i = 0; i < terminals->count; ++i) {
        if (major(status.st_rdev) == terminals->majors[i]) {
            return 1;
        }
    }
    return 0;
}

/* Recognizes files of /dev that are no devices to compute on: terminals, logs, disks, and what a person or
 * the machine itself works with. */
static int is_no_accelerator(const char *name) {
    static const char *const kinds[] = {"tty",  "pts",  "ptmx",  "console", "vcs",  "vcsa",   "vcsu",
                                        "hvc",  "kmsg", "mem",   "port",    "nvme", "ng",     "sg",
                                        "bsg",  "st",   "nst",   "loop",    "tpm",  "rtc",    "i2c",
                                        "ipmi", "bus",  "input", "uinput",  "uhid", "hidraw", "watchdog"};
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        const size_t length = strlen(kinds[i]);
        if (strncmp(name, kinds[i], length) == 0 && (name[length] < 'a' || name[length] > 'z')) {
            return 1; /* tty, tty0, ttyS0; not ttyish */
        }
    }
    return 0;
}

/* All character devices of /dev and its folders but the above, since vendors name their devices as they like. Nothing
 * is made or removed there, where links name disks. */
static void allow_devices(int ruleset, uint64_t changes, const struct terminal_drivers *terminals, const char *folder,
                          int depth) {
    enum { deepest = 3 };
    char path[512];
    const struct dirent *entry;
    DIR *const devices = opendir(folder);
    if (devices == NULL) {
        return;
    }
    while ((entry = readdir(devices)) != NULL) {
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || is_no_accelerator(entry->d_name) || length >= (int)sizeof path) {
            continue;
        }
        if (entry->d_type == DT_CHR && !is_terminal(terminals, path)) {
            allow_changes(ruleset, changes & CHANGES_OF_ONE_FILE, path);
        } else if (entry->d_type == DT_DIR && depth < deepest) {
            allow_devices(ruleset, changes, terminals, path, depth + 1);
        }
    }
    (void)closedir(devices);
}

/* Files can be read, and changed only where libraries keep what lasts no longer than a process: an entry says what the
 * plugin brings and has nothing to write. Runtimes of devices open files of /dev and of their driver for writing. Of
 * /proc the process has its own part: the host's says for instance what the kernel ends first when memory runs out. */
static int forbid_changes_outside(int may_use_devices) {
    static const char *const folders[] = {"/proc/self", "/tmp", "/dev/shm"};
    static const char *const files[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    struct landlock_rules rules;
    size_t i;
    int ruleset;
    int is_done;
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) {
        return 1; /* not in this kernel, or switched off */
    }
    memset(&rules, 0, sizeof rules);
    rules.handled_access_fs = CHANGES_OF_FILES;
    rules.handled_access_fs |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
    rules.handled_access_fs |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
    rules.scoped = version >= 6 ? LANDLOCK_SCOPE_SIGNAL : 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (ruleset < 0) {
        return 0;
    }
    for (i = 0; i < sizeof folders / sizeof *folders; ++i) {
        allow_changes(ruleset, rules.handled_access_fs, folders[i]);
    }
    for (i = 0; i < sizeof files / sizeof *files; ++i) {
        allow_changes(ruleset, rules.handled_access_fs & CHANGES_OF_ONE_FILE, files[i]);
    }
    if (may_use_devices) {
        const struct terminal_drivers terminals = find_terminal_drivers();
        allow_changes(ruleset, rules.handled_access_fs, "/proc/driver");
        allow_devices(ruleset, rules.handled_access_fs, &terminals, "/dev", 1);
    }
    is_done = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    close(ruleset);
    return is_done;
}

/* Drops the capabilities of root, and those that a user has in a new user namespace. One stays: the probe reads what
 * belongs to others, as a host of root's does. */
static void give_up_rights(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
    memset(rights, 0, sizeof rights);
    if (syscall(SYS_capget, &header, rights) != 0) {
        return;
    }
    rights[0].permitted &= 1u << CAP_DAC_READ_SEARCH;
    rights[0].effective = rights[0].permitted;
    rights[0].inheritable = 0;
    memset(&rights[1], 0, sizeof rights[1]);
    (void)syscall(SYS_capset, &header, rights);
}

static void limit(int resource, rlim_t most) {
    struct rlimit limits;
    if (getrlimit((__rlimit_resource_t)resource, &limits) == 0 && most < limits.rlim_max) {
        limits.rlim_cur = most;
        limits.rlim_max = most;
        (void)setrlimit((__rlimit_resource_t)resource, &limits);
    }
}

int confine_process(uint64_t most_memory, int may_use_devices, int is_alone) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* with its keeper */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_RTPRIO, 0); /* what the host was lent to run before others */
    limit(RLIMIT_NICE, 0);
#ifndef PROBE_IS_SANITIZED
    if (most_memory != 0) {
        /* Memory that can be written to, not addresses: runtimes reserve many more than they use. */
        limit(RLIMIT_DATA, most_memory);
        /* Shared memory does not count there. The keeper watches what is mapped; this bounds each file in memory. The
         * signal is ignored: a file that is too large is an error for the plugin to see. */
        limit(RLIMIT_FSIZE, most_memory);
        signal(SIGXFSZ, SIG_IGN);
    }
#else
    (void)most_memory;
#endif
    if (!forbid_changes_outside(may_use_devices)) {
        return 0;
    }
    give_up_rights();
    return forbid_system_calls(is_alone, may_use_devices);
}
