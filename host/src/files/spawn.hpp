// posix_spawn with its attributes and file actions.
#pragma once

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <sys/types.h>
#include <unistd.h>

namespace opdock::core {

// Setting them may fail for lack of memory: run() returns the failure.
class Spawn {
  public:
    Spawn() { // these cannot fail
        posix_spawnattr_init(&attributes_);
        posix_spawn_file_actions_init(&actions_);
    }
    ~Spawn() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }
    Spawn(const Spawn &) = delete;
    Spawn &operator=(const Spawn &) = delete;

    // Makes `descriptor` available in the child under the number `as`.
    void give(int descriptor, int as) { note(posix_spawn_file_actions_adddup2(&actions_, descriptor, as)); }
    // Reads from `as` return end of file.
    void give_nothing(int as) { note(posix_spawn_file_actions_addopen(&actions_, as, "/dev/null", O_RDONLY, 0)); }
    // Writes to `as` are discarded.
    void drop(int as) { note(posix_spawn_file_actions_addopen(&actions_, as, "/dev/null", O_WRONLY, 0)); }
    void close_from(int first) { note(posix_spawn_file_actions_addclosefrom_np(&actions_, first)); }
    void work_in(const char *folder) { note(posix_spawn_file_actions_addchdir_np(&actions_, folder)); }

    // Starts a new session without this terminal, so that the child can be killed with its children.
    void begin_session() { add_flag(POSIX_SPAWN_SETSID); }
    void unblock_signals() {
        sigset_t none;
        sigemptyset(&none);
        note(posix_spawnattr_setsigmask(&attributes_, &none));
        add_flag(POSIX_SPAWN_SETSIGMASK);
    }
    // Resets these signals to their default action.
    void reset_signals(const sigset_t &signals) {
        note(posix_spawnattr_setsigdefault(&attributes_, &signals));
        add_flag(POSIX_SPAWN_SETSIGDEF);
    }

    // Runs the file arguments[0], searched in PATH if it has no slash. Returns 0 or an errno value.
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
