// posix_spawn with its settings.
#pragma once

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <sys/types.h>
#include <unistd.h>

namespace opdock::core {

// Settings need memory and may fail: run() returns the failure.
class Spawn {
  public:
    Spawn() { // these only set memory
        posix_spawnattr_init(&attributes_);
        posix_spawn_file_actions_init(&actions_);
    }
    ~Spawn() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }
    Spawn(const Spawn &) = delete;
    Spawn &operator=(const Spawn &) = delete;

    // In the child, `descriptor` has the number `as`.
    void give(int descriptor, int as) { note(posix_spawn_file_actions_adddup2(&actions_, descriptor, as)); }
    // There is nothing to read from `as`.
    void give_nothing(int as) { note(posix_spawn_file_actions_addopen(&actions_, as, "/dev/null", O_RDONLY, 0)); }
    // Writes to `as` go nowhere.
    void drop(int as) { note(posix_spawn_file_actions_addopen(&actions_, as, "/dev/null", O_WRONLY, 0)); }
    void close_from(int first) { note(posix_spawn_file_actions_addclosefrom_np(&actions_, first)); }
    void work_in(const char *folder) { note(posix_spawn_file_actions_addchdir_np(&actions_, folder)); }

    // A session of its own, without the terminal of this one, so that its children can be killed with it.
    void begin_session() { add_flag(POSIX_SPAWN_SETSID); }
    void unblock_signals() {
        sigset_t none;
        sigemptyset(&none);
        note(posix_spawnattr_setsigmask(&attributes_, &none));
        add_flag(POSIX_SPAWN_SETSIGMASK);
    }
    // These signals do what they do in a new program.
    void reset_signals(const sigset_t &signals) {
        note(posix_spawnattr_setsigdefault(&attributes_, &signals));
        add_flag(POSIX_SPAWN_SETSIGDEF);
    }

    // Runs the file that arguments[0] names, searched in PATH when it has no slash. 0, or what errno would be.
    int run(char *const *arguments, char *const *environment, pid_t *process) const {
        return failed_ != 0 ? failed_
                            : posix_spawnp(process, arguments[0], &actions_, &attributes_, arguments, environment);
    }

  private:
    void note(int failed) { failed_ = std::max(failed_, failed); }
    void add_flag(int flag) {
        short flags = 0;
        posix_spawnattr_getflags(&attributes_, &flags);
        note(posix_spawnattr_setflags(&attributes_, static_cast<short>(flags | flag)));
    }

    posix_spawnattr_t attributes_{};
    posix_spawn_file_actions_t actions_{};
    int failed_ = 0;
};

} // namespace opdock::core
