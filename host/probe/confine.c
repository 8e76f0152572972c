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

/* Missing in the headers of older systems. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif

/* All kernel fields that this file uses; the kernel accepts zeros for fields that it does not know. */
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

/* The subset that the kernel accepts for a file that is not a directory. */
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

/* Device numbers of terminal drivers, independent of file names. */
struct terminal_drivers {
    unsigned majors[64];
    unsigned count;
};

static struct terminal_drivers find_terminal_drivers(void) {
    /* Consoles, /dev/tty, console screens and pseudoterminals: the default if nothing lists them. */
    struct terminal_drivers found = {{4, 5, 7, 136, 137, 138, 139, 140, 141, 142, 143}, 11};
    char line[256];
    FILE *const drivers = fopen("/proc/tty/drivers", "re"); /* name, file, major, minor range, type */
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
        return 1; /* cannot be determined */
    }
    for (i = 0; i < terminals->count; ++i) {
        if (major(status.st_rdev) == terminals->majors[i]) {
            return 1;
        }
    }
    return 0;
}

/* Recognizes files of /dev that are not compute devices: terminals, logs, disks, and devices used by people or by the
 * machine itself. */
static int is_no_accelerator(const char *name) {
    static const char *const kinds[] = {"tty",  "pts",  "ptmx",  "console", "vcs",  "vcsa",   "vcsu",
                                        "hvc",  "kmsg", "mem",   "port",    "nvme", "ng",     "sg",
                                        "bsg",  "st",   "nst",   "loop",    "tpm",  "rtc",    "i2c",
                                        "ipmi", "bus",  "input", "uinput",  "uhid", "hidraw", "watchdog"};
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        const size_t length = strlen(kinds[i]);
        if (strncmp(name, kinds[i], length) == 0 && (name[length] < 'a' || name[length] > 'z')) {
            return 1; /* matches tty, tty0, ttyS0; not ttyish */
        }
    }
    return 0;
}

/* Allows all character devices below /dev except those above, because vendors name their devices freely. Files cannot
 * be created or removed there, where links name disks. */
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

/* Files can be read; they can be changed only where libraries keep data that does not outlive a process: an entry
 * describes its plugin and has nothing to write. Device runtimes open files of /dev and of their driver for writing. In
 * /proc the process may write only to its own part: the host's part includes, for instance, its OOM score. */
static int forbid_changes_outside(int may_use_devices) {
    static const char *const folders[] = {"/proc/self", "/tmp", "/dev/shm"};
    static const char *const files[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    struct landlock_rules rules;
    size_t i;
    int ruleset;
    int is_done;
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) {
        return 1; /* not supported by this kernel, or disabled */
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

/* Drops the capabilities of root, and those of a user in a new user namespace, except one: the probe reads files of
 * other users, as a host run by root does. */
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
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* end with the keeper */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_RTPRIO, 0); /* real-time rights lent to the host */
    limit(RLIMIT_NICE, 0);
#ifndef PROBE_IS_SANITIZED
    if (most_memory != 0) {
        /* Limits writable memory, not address space: runtimes reserve far more than they use. */
        limit(RLIMIT_DATA, most_memory);
        /* RLIMIT_DATA ignores shared memory. The keeper watches mapped memory; this bounds each file in memory. The
         * signal is ignored, so the plugin sees an error for a file that is too large. */
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
