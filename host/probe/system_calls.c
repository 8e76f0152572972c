/* A seccomp filter: system calls that reach into other processes, and those that change rights, fail with EPERM, as
 * they do for another user. Probe and host have the same user, so nothing else keeps a plugin from killing the host,
 * and Landlock does not cover modes and owners of files. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_CALLS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_CALLS AUDIT_ARCH_AARCH64
#endif

#ifdef NATIVE_CALLS

/* Missing in the headers of older systems; the same numbers on all machines. */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
#ifndef SYS_removexattrat
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

enum { MOST_INSTRUCTIONS = 400 };

static struct sock_filter program[MOST_INSTRUCTIONS];
static unsigned short length;

static void add(unsigned short code, uint32_t operand, uint8_t if_true, uint8_t if_false) {
    const struct sock_filter instruction = {code, if_true, if_false, operand};
    program[length++] = instruction;
}

static void answer(uint32_t action) {
    add(BPF_RET | BPF_K, action, 0, 0);
}

static void load(size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Loads the lower half of an argument: process numbers and commands are ints. */
static void load_argument(unsigned number) {
    load(offsetof(struct seccomp_data, args) + number * sizeof(uint64_t) +
         (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0));
}

static const uint32_t refused = SECCOMP_RET_ERRNO | EPERM;

static void refuse(long call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    answer(refused);
}

/* Refuses the call if the argument has this value. */
static void refuse_with(long call, unsigned argument, uint32_t value) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
    load_argument(argument);
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    answer(refused);
    load(offsetof(struct seccomp_data, nr));
}

/* Refuses the call if the argument has any of these bits. */
static void refuse_bits(long call, unsigned argument, uint32_t bits) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
    load_argument(argument);
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    answer(refused);
    load(offsetof(struct seccomp_data, nr));
}

/* Answers as if the kernel lacked the call: the C library then uses another. */
static void hide(long call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    answer(SECCOMP_RET_ERRNO | ENOSYS);
}

/* Modes, owners, attributes and times of any file of the user; set-user-ID files of root. */
static void refuse_rights_of_files(void) {
    enum { AS_OWNER_OR_GROUP = 06000 };
#ifdef SYS_chmod
    refuse(SYS_chmod);
    refuse(SYS_chown);
    refuse(SYS_lchown);
    refuse(SYS_utime);
    refuse(SYS_utimes);
    refuse(SYS_futimesat);
    refuse_bits(SYS_open, 2, AS_OWNER_OR_GROUP);
    refuse_bits(SYS_creat, 1, AS_OWNER_OR_GROUP);
    refuse_bits(SYS_mknod, 1, AS_OWNER_OR_GROUP);
#endif
    refuse(SYS_fchmod);
    refuse(SYS_fchmodat);
    refuse(SYS_fchmodat2);
    refuse(SYS_fchown);
    refuse(SYS_fchownat);
    refuse(SYS_utimensat);
    refuse(SYS_setxattr);
    refuse(SYS_lsetxattr);
    refuse(SYS_fsetxattr);
    refuse(SYS_setxattrat);
    refuse(SYS_removexattr);
    refuse(SYS_lremovexattr);
    refuse(SYS_fremovexattr);
    refuse(SYS_removexattrat);
    refuse(SYS_file_setattr);
    refuse_bits(SYS_openat, 3, AS_OWNER_OR_GROUP);
    refuse_bits(SYS_mknodat, 2, AS_OWNER_OR_GROUP);
    hide(SYS_openat2); /* its mode is in memory, which filters cannot read */
}

/* Refuses ioctl requests that are this byte and one more: console requests, numbered before the upper half of a request
 * described it. */
static void refuse_old_ioctls(uint32_t owner) {
    add(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 5);
    load_argument(1);
    add(BPF_ALU | BPF_AND | BPF_K, 0xffffff00u, 0, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, owner << 8, 0, 1);
    answer(refused);
    load(offsetof(struct seccomp_data, nr));
}

/* TCGETS2, used by tcgetattr since glibc 2.42: the header with its struct conflicts with others. */
#define TERMINAL_GET_2 0x802c542au

/* Refuses ioctls that change terminal settings or file attributes kept by filesystems: a read-only descriptor is enough
 * for these. The second byte of a request identifies its owner. */
static void refuse_ioctls(int may_use_devices) {
    static const uint32_t harmless[] = {TCGETS,   TERMINAL_GET_2, TIOCGPGRP, TIOCGSID, TIOCOUTQ, TIOCGWINSZ,
                                        FIONREAD, FIONBIO,        FIONCLEX,  FIOCLEX,  FIOASYNC, FS_IOC_GETFLAGS};
    static const uint32_t owners[] = {'T' << 8,  'f' << 8, 'v' << 8, 'X' << 8, /* terminals; files; ext2 to 4; XFS */
                                      0x94 << 8, 0xf5 << 8};                   /* btrfs; f2fs */
    enum { N_HARMLESS = sizeof harmless / sizeof *harmless, N_OWNERS = sizeof owners / sizeof *owners };
    unsigned i;
    if (!may_use_devices) { /* plugins without devices need no other requests */
        add(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, N_HARMLESS + 3);
        load_argument(1);
        for (i = 0; i < N_HARMLESS; ++i) {
            add(BPF_JMP | BPF_JEQ | BPF_K, harmless[i], (uint8_t)(N_HARMLESS - i), 0);
        }
        answer(refused);
        load(offsetof(struct seccomp_data, nr));
        return;
    }
    add(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, N_HARMLESS + N_OWNERS + 5);
    load_argument(1);
    for (i = 0; i < N_HARMLESS; ++i) {
        add(BPF_JMP | BPF_JEQ | BPF_K, harmless[i], (uint8_t)(N_HARMLESS - i + N_OWNERS + 2), 0);
    }
    add(BPF_ALU | BPF_AND | BPF_K, 0xff00, 0, 0);
    for (i = 0; i < N_OWNERS; ++i) {
        add(BPF_JMP | BPF_JEQ | BPF_K, owners[i], (uint8_t)(N_OWNERS - i), 0);
    }
    add(BPF_JMP | BPF_JA, 1, 0, 0);
    answer(refused);
    load(offsetof(struct seccomp_data, nr));
}

/* Namespaces, in which a process regains rights; keys of the user's session; calls that no filter sees. */
static void refuse_other_rights(void) {
    refuse(SYS_unshare);
    refuse(SYS_setns);
    refuse_bits(SYS_clone, 0, CLONE_NEWUSER);
    hide(SYS_clone3); /* its flags are in memory, which filters cannot read */
    refuse(SYS_keyctl);
    refuse(SYS_add_key);
    refuse(SYS_request_key);
    hide(SYS_io_uring_setup);
}

/* Refuses the call unless the argument is 0 or the number of this process. */
static void keep_to_itself(long call, unsigned argument) {
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 5);
    load_argument(argument);
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1, 0);
    answer(refused);
    load(offsetof(struct seccomp_data, nr));
}

/* Calls that take process numbers. kill(0) reaches the process group, which is the probe's own. */
static void refuse_other_numbers(void) {
    enum { AN_OWNER = 8, AN_OWNER_EX = 15 }; /* F_SETOWN, F_SETOWN_EX: set the receiver of SIGIO */
    keep_to_itself(SYS_kill, 0);
    keep_to_itself(SYS_tkill, 0);
    keep_to_itself(SYS_tgkill, 0);
    keep_to_itself(SYS_rt_sigqueueinfo, 0);
    keep_to_itself(SYS_rt_tgsigqueueinfo, 0);
    keep_to_itself(SYS_prlimit64, 0);
    keep_to_itself(SYS_sched_setaffinity, 0);
    keep_to_itself(SYS_sched_setscheduler, 0);
    keep_to_itself(SYS_sched_setparam, 0);
    keep_to_itself(SYS_sched_setattr, 0);
    keep_to_itself(SYS_migrate_pages, 0);
    keep_to_itself(SYS_move_pages, 0);
    keep_to_itself(SYS_setpriority, 1);
    keep_to_itself(SYS_ioprio_set, 1);
    refuse_with(SYS_setpriority, 0, PRIO_USER);
    refuse_with(SYS_ioprio_set, 0, 3); /* IOPRIO_WHO_USER */
    refuse_with(SYS_fcntl, 1, AN_OWNER);
    refuse_with(SYS_fcntl, 1, AN_OWNER_EX);
    refuse_with(SYS_ioctl, 1, FIOSETOWN);
    refuse_with(SYS_ioctl, 1, SIOCSPGRP);
}

int forbid_system_calls(int is_alone, int may_use_devices) {
    struct sock_fprog filter;

    load(offsetof(struct seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_CALLS, 1, 0);
    answer(SECCOMP_RET_ERRNO | ENOSYS); /* the same calls under other numbers */
    load(offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
    answer(SECCOMP_RET_ERRNO | ENOSYS);
#endif
    refuse(SYS_ptrace);
    refuse(SYS_process_vm_readv);
    refuse(SYS_process_vm_writev);
    refuse(SYS_process_madvise);
    refuse(SYS_process_mrelease);
    refuse(SYS_pidfd_send_signal);
    refuse(SYS_pidfd_getfd);
    refuse(SYS_kcmp);
    refuse(SYS_open_by_handle_at); /* root could bypass Landlock with it, which cannot tell where such a file is */
    /* System V objects outlive the process. */
    refuse(SYS_shmget);
    refuse(SYS_semget);
    refuse(SYS_msgget);
    /* And those of other processes can be found by number. */
    refuse(SYS_shmat);
    refuse(SYS_shmctl);
    refuse(SYS_semop);
    refuse(SYS_semtimedop);
    refuse(SYS_semctl);
    refuse(SYS_msgsnd);
    refuse(SYS_msgrcv);
    refuse(SYS_msgctl);
    refuse(SYS_mq_open);
    refuse(SYS_mq_unlink);
    refuse(SYS_mq_timedsend); /* queues in a mounted mqueue filesystem can be opened for reading, and emptied */
    refuse(SYS_mq_timedreceive);
    refuse(SYS_mq_notify);
    refuse(SYS_mq_getsetattr);
    refuse_ioctls(may_use_devices);
    refuse_with(SYS_fcntl, 1, F_SETLEASE); /* whoever opens the file would wait */
    refuse_old_ioctls('K');                /* keyboard, sound and mode of consoles */
    refuse_old_ioctls('V');                /* active console and its size; not video devices */
    refuse_old_ioctls('L');                /* loop devices */
    refuse_old_ioctls(0x12);               /* disks */
    refuse(SYS_setsid); /* a session leader that opens a terminal takes it over, and hangs it up on exit */
    refuse_rights_of_files();
    refuse_other_rights();
    if (!is_alone) {
        refuse_other_numbers();
    }
    if (!may_use_devices) { /* files of memory that no process maps, and that therefore counts for none */
        hide(SYS_memfd_create);
        hide(SYS_memfd_secret);
    }
    answer(SECCOMP_RET_ALLOW);
    filter.len = length;
    filter.filter = program;
    /* A program may forbid filters for itself; too many filters are reported. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 || errno != ENOMEM;
}

#else

int forbid_system_calls(int is_alone, int may_use_devices) {
    (void)is_alone;
    (void)may_use_devices;
    return 1;
}

#endif
