#include "failing_calls.hpp"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opdock::stress {
namespace {

// Plain values: these wrappers precede the C library and must not depend on anything that uses it.
thread_local bool armed = false;
thread_local Call failing = Call::count;
thread_local std::uint64_t first = 0;
thread_local std::uint64_t last = 0;
thread_local std::uint64_t seen = 0;
thread_local int error = 0;
thread_local std::array<char, 512> folder = {};

bool is_below(const char *path) {
    return path != nullptr && std::string_view(path).starts_with(folder.data());
}

// True for a file below the folder, or a pipe.
bool is_ours(int descriptor) {
    std::array<char, 64> link = {};
    std::array<char, 512> target = {};
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
    const long size = syscall(SYS_readlink, link.data(), target.data(), target.size() - 1);
    return size > 0 && (is_below(target.data()) || std::string_view(target.data()).starts_with("pipe:"));
}

bool fails_now(Call call) {
    if (!armed || call != failing) {
        return false;
    }
    ++seen;
    if (first == 0 || seen < first || seen > last) {
        return false;
    }
    errno = error;
    return true;
}

bool fails(Call call, const char *path) {
    return armed && is_below(path) && fails_now(call);
}

bool fails(Call call, int descriptor) {
    return armed && call == failing && is_ours(descriptor) && fails_now(call);
}

template<class Function>
Function *next(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

const char *name_of(Call call) {
    constexpr std::array<const char *, static_cast<std::size_t>(Call::count)> names = {
        "open",   "read",  "write", "sync",  "truncate", "posix_fallocate", "fcntl", "mmap", "mkostemps", "rename",
        "unlink", "mkdir", "stat",  "chmod", "pipe",     "spawn",           "poll",  "wait"};
    return names.at(static_cast<std::size_t>(call));
}

void fail_call(Call call, std::uint64_t nth, std::uint64_t more, int code, const std::string &below) {
    failing = call;
    first = nth;
    last = nth + more;
    seen = 0;
    error = code;
    std::snprintf(folder.data(), folder.size(), "%s", below.c_str());
    armed = true;
}

std::uint64_t stop_failing_calls() {
    armed = false;
    return seen;
}

} // namespace opdock::stress

using opdock::stress::Call;
using opdock::stress::fails;
using opdock::stress::fails_now;
using opdock::stress::next;

// The next function of this name after this program's own.
#define REAL(name) static auto *const real = next<decltype(name)>(#name)
#define WRAPPED extern "C" __attribute__((visibility("default")))

// NOLINTBEGIN: the C library's own names and forms.
#define WRAP_OPEN(name)                                                                                                \
    WRAPPED int name(const char *path, int flags, ...) {                                                               \
        static auto *const real = next<int(const char *, int, ...)>(#name);                                            \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0u;                      \
        va_end(rest);                                                                                                  \
        return fails(Call::open, path) ? -1 : real(path, flags, mode);                                                 \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)

WRAPPED ssize_t read(int descriptor, void *into, size_t size) {
    REAL(read);
    return fails(Call::read, descriptor) ? -1 : real(descriptor, into, size);
}

#define WRAP_PREAD(name, offset_type)                                                                                  \
    WRAPPED ssize_t name(int descriptor, void *into, size_t size, offset_type offset) {                                \
        REAL(name);                                                                                                    \
        return fails(Call::read, descriptor) ? -1 : real(descriptor, into, size, offset);                              \
    }
WRAP_PREAD(pread, off_t)
WRAP_PREAD(pread64, off64_t)

WRAPPED ssize_t write(int descriptor, const void *from, size_t size) {
    REAL(write);
    return fails(Call::write, descriptor) ? -1 : real(descriptor, from, size);
}

#define WRAP_PWRITE(name, offset_type)                                                                                 \
    WRAPPED ssize_t name(int descriptor, const void *from, size_t size, offset_type offset) {                          \
        REAL(name);                                                                                                    \
        return fails(Call::write, descriptor) ? -1 : real(descriptor, from, size, offset);                             \
    }
WRAP_PWRITE(pwrite, off_t)
WRAP_PWRITE(pwrite64, off64_t)

WRAPPED int fsync(int descriptor) {
    REAL(fsync);
    return fails(Call::sync, descriptor) ? -1 : real(descriptor);
}

WRAPPED int fdatasync(int descriptor) {
    REAL(fdatasync);
    return fails(Call::sync, descriptor) ? -1 : real(descriptor);
}

#define WRAP_TRUNCATE(name, offset_type)                                                                               \
    WRAPPED int name(int descriptor, offset_type size) noexcept {                                                      \
        static auto *const real = next<int(int, offset_type)>(#name);                                                  \
        return fails(Call::truncate, descriptor) ? -1 : real(descriptor, size);                                        \
    }
WRAP_TRUNCATE(ftruncate, off_t)
WRAP_TRUNCATE(ftruncate64, off64_t)

#define WRAP_ALLOCATE(name, offset_type)                                                                               \
    WRAPPED int name(int descriptor, offset_type offset, offset_type size) {                                           \
        REAL(name);                                                                                                    \
        return fails(Call::allocate, descriptor) ? errno : real(descriptor, offset, size);                             \
    }
WRAP_ALLOCATE(posix_fallocate, off_t)
WRAP_ALLOCATE(posix_fallocate64, off64_t)

// Unlocking never fails.
#define WRAP_FCNTL(name)                                                                                               \
    WRAPPED int name(int descriptor, int command, ...) {                                                               \
        static auto *const real = next<int(int, int, ...)>(#name);                                                     \
        va_list rest;                                                                                                  \
        va_start(rest, command);                                                                                       \
        void *const argument = va_arg(rest, void *);                                                                   \
        va_end(rest);                                                                                                  \
        const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK;                        \
        const bool gives_back = locks && static_cast<const struct flock *>(argument)->l_type == F_UNLCK;               \
        return !gives_back && fails(Call::lock, descriptor) ? -1 : real(descriptor, command, argument);                \
    }
WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)

#define WRAP_MMAP(name, offset_type)                                                                                   \
    WRAPPED void *name(void *address, size_t size, int protection, int flags, int descriptor,                          \
                       offset_type offset) noexcept {                                                                  \
        static auto *const real = next<void *(void *, size_t, int, int, int, offset_type)>(#name);                     \
        return descriptor >= 0 && fails(Call::map, descriptor)                                                         \
                   ? MAP_FAILED                                                                                        \
                   : real(address, size, protection, flags, descriptor, offset);                                       \
    }
WRAP_MMAP(mmap, off_t)
WRAP_MMAP(mmap64, off64_t)

#define WRAP_MAKE_TEMPORARY(name)                                                                                      \
    WRAPPED int name(char *pattern, int suffix, int flags) {                                                           \
        REAL(name);                                                                                                    \
        return fails(Call::make_temporary, pattern) ? -1 : real(pattern, suffix, flags);                               \
    }
WRAP_MAKE_TEMPORARY(mkostemps)
WRAP_MAKE_TEMPORARY(mkostemps64)

WRAPPED int rename(const char *from, const char *to) noexcept {
    static auto *const real = next<int(const char *, const char *)>("rename");
    return fails(Call::rename, from) ? -1 : real(from, to);
}

WRAPPED int unlink(const char *path) noexcept {
    static auto *const real = next<int(const char *)>("unlink");
    return fails(Call::remove, path) ? -1 : real(path);
}

WRAPPED int mkdir(const char *path, mode_t mode) noexcept {
    static auto *const real = next<int(const char *, mode_t)>("mkdir");
    return fails(Call::make_folder, path) ? -1 : real(path, mode);
}

#define WRAP_STAT(name, type)                                                                                          \
    WRAPPED int name(const char *path, struct type *into) noexcept {                                                   \
        static auto *const real = next<int(const char *, struct type *)>(#name);                                       \
        return fails(Call::stat, path) ? -1 : real(path, into);                                                        \
    }
WRAP_STAT(stat, stat)
WRAP_STAT(stat64, stat64)
WRAP_STAT(lstat, stat)
WRAP_STAT(lstat64, stat64)

#define WRAP_FSTAT(name, type)                                                                                         \
    WRAPPED int name(int descriptor, struct type *into) noexcept {                                                     \
        static auto *const real = next<int(int, struct type *)>(#name);                                                \
        return fails(Call::stat, descriptor) ? -1 : real(descriptor, into);                                            \
    }
WRAP_FSTAT(fstat, stat)
WRAP_FSTAT(fstat64, stat64)

WRAPPED int chmod(const char *path, mode_t mode) noexcept {
    static auto *const real = next<int(const char *, mode_t)>("chmod");
    return fails(Call::change_mode, path) ? -1 : real(path, mode);
}

WRAPPED int fchmod(int descriptor, mode_t mode) noexcept {
    static auto *const real = next<int(int, mode_t)>("fchmod");
    return fails(Call::change_mode, descriptor) ? -1 : real(descriptor, mode);
}

WRAPPED int pipe2(int *ends, int flags) noexcept {
    static auto *const real = next<int(int *, int)>("pipe2");
    return fails_now(Call::pipe) ? -1 : real(ends, flags);
}

WRAPPED int posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment) {
    REAL(posix_spawn);
    return fails_now(Call::spawn) ? errno : real(process, path, actions, attributes, arguments, environment);
}

WRAPPED int poll(pollfd *polled, nfds_t count, int milliseconds) {
    REAL(poll);
    return fails_now(Call::poll) ? -1 : real(polled, count, milliseconds);
}

WRAPPED int waitid(idtype_t kind, id_t id, siginfo_t *into, int options) {
    REAL(waitid);
    return fails_now(Call::wait) ? -1 : real(kind, id, into, options);
}

WRAPPED pid_t waitpid(pid_t process, int *status, int options) {
    REAL(waitpid);
    return fails_now(Call::wait) ? -1 : real(process, status, options);
}
// NOLINTEND
