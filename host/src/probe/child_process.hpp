// A program that runs in a separate process for a limited time: plugin-probe, and the commands with which vendors query
// their devices.
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"
#include "files/spawn.hpp"

namespace opdock::core {

// The end of a process.
struct ProcessEnd {
    bool in_time = true;
    int status = 0;       // as from waitpid; meaningless if the process was killed here, or reaped by other code
    bool known = true;    // false if its keeper was killed and the program reaps all children itself
    bool confined = true; // false: nothing was run, because this program has reached the kernel's limits of confinement
};

// ", with exit code 3", ", by signal 11 (Segmentation fault)"; "" if unknown.
std::string how_it_ended(const ProcessEnd &end);

// Moves the descriptor, with close-on-exec, above the numbers that a child assigns and those of standard streams, which
// may be closed.
int moved_up(int descriptor);

// A pipe to which the child writes and from which the host reads.
struct Pipe {
    Descriptor ours;
    Descriptor theirs;

    // Returns null, or the name of the call that failed, with errno set.
    const char *open();
};

// The errno of a system call that must not fail. It indicates a problem of the machine, not of the program.
struct ChannelFailure : std::exception {
    ChannelFailure(const char *failed, int error) : call(failed), code(error) {}
    const char *what() const noexcept override { return call; }

    const char *call;
    int code;
};

// The reason in messages for a process that was not confined.
extern const char *const not_confined;

// Settings of a child: a new session, so that its children can be killed with it, and so that it has neither the
// host's terminal nor its session's priority; default signal handling; only the descriptors that it is given, and
// empty input.
class ChildStart : public Spawn {
  public:
    ChildStart();
};

class ChildProcess {
  public:
    using Clock = std::chrono::steady_clock;

    // `status`: the pipe to which the process itself writes its end, for programs that reap all children.
    ChildProcess(pid_t process, Descriptor status);
    // Also ends everything that the process started.
    ~ChildProcess();
    ChildProcess(const ChildProcess &) = delete;
    ChildProcess &operator=(const ChildProcess &) = delete;

    // Readable when the process has ended; -1 if the kernel has no process descriptors.
    int handle() const { return handle_.get(); }
    // Maximum poll time in milliseconds: short if there is no handle.
    int longest_wait(int milliseconds) const { return handle() >= 0 ? milliseconds : 2; }
    // Throws ChannelFailure.
    bool ended() const;
    // True if it ended before the deadline. Throws ChannelFailure.
    bool wait_until(Clock::time_point deadline) const;
    // Kills what is left and returns how the process ended.
    ProcessEnd reap();

  private:
    pid_t process_;
    Descriptor handle_;
    Descriptor status_;
    long timer_slack_; // saved from the thread, which may allow delays of seconds; reduced meanwhile
    ProcessEnd end_;
};

// 0 if the deadline has passed, otherwise at least 1.
int milliseconds_until(ChildProcess::Clock::time_point deadline);

} // namespace opdock::core
