// A program that runs in a process of its own, for a limited time: plugin-probe, and what vendors name to ask for their
// device.
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"
#include "files/spawn.hpp"

namespace opdock::core {

// How a process ended.
struct ProcessEnd {
    bool in_time = true;
    int status = 0;       // as waitpid gives it; of no meaning when the process was killed, or reaped by somebody else
    bool known = true;    // not where what watches it was killed, and the program takes the ends of all children
    bool confined = true; // else nothing was run: the kernel has no more for this program of what confines a process
};

// ", with exit code 3", ", by signal 11 (Segmentation fault)"; "" when it is not known.
std::string how_it_ended(const ProcessEnd &end);

// The same descriptor, closed on exec, out of the way of the numbers that a child gives its own, and of standard
// streams that are closed.
int moved_up(int descriptor);

// The child writes, and the host reads what is there.
struct Pipe {
    Descriptor ours;
    Descriptor theirs;

    // Null, or the call that failed, with errno.
    const char *open();
};

// What a system call that must not fail returned as errno. It says something of the machine, not of the program.
struct ChannelFailure : std::exception {
    ChannelFailure(const char *failed, int error) : call(failed), code(error) {}
    const char *what() const noexcept override { return call; }

    const char *call;
    int code;
};

// The reason that messages give for a process that was not confined.
extern const char *const not_confined;

// A session of its own, so that its children can be killed with it, and so that the terminal and the priority of the
// host's session are not its; signals as a new program finds them; no descriptor but the ones it is given, and nothing
// to read.
class ChildStart : public Spawn {
  public:
    ChildStart();
};

class ChildProcess {
  public:
    using Clock = std::chrono::steady_clock;

    // `status` is where the process itself writes how it ends, for programs that take the ends of all children.
    ChildProcess(pid_t process, Descriptor status);
    // Whatever it started goes with it.
    ~ChildProcess();
    ChildProcess(const ChildProcess &) = delete;
    ChildProcess &operator=(const ChildProcess &) = delete;

    // Readable when it has ended; -1 where the kernel has no handles for processes.
    int handle() const { return handle_.get(); }
    // How long to poll, in milliseconds: without a handle, look often.
    int longest_wait(int milliseconds) const { return handle() >= 0 ? milliseconds : 2; }
    // Throws ChannelFailure.
    bool ended() const;
    // True when it ended before the deadline. Throws ChannelFailure.
    bool wait_until(Clock::time_point deadline) const;
    // Kills what is left and tells how the process ended.
    ProcessEnd reap();

  private:
    pid_t process_;
    Descriptor handle_;
    Descriptor status_;
    long timer_slack_; // of the thread, which may let its timers be late by seconds; they are in time meanwhile
    ProcessEnd end_;
};

// 0 when it is past, else at least 1.
int milliseconds_until(ChildProcess::Clock::time_point deadline);

} // namespace opdock::core
