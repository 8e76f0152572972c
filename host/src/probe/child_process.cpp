#include "probe/child_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/transcript_format.h"

namespace opdock::core {

const char *const not_confined = "it cannot be confined: the kernel accepts no further Landlock layer, or no further "
                                 "filter of system calls (seccomp), for this program";

namespace {

int open_handle(pid_t process) {
#ifdef SYS_pidfd_open
    return static_cast<int>(syscall(SYS_pidfd_open, process, 0));
#else
    return -1;
#endif
}

} // namespace

int moved_up(int descriptor) {
    constexpr int first_free = 16;
    return fcntl(descriptor, F_DUPFD_CLOEXEC, first_free);
}

const char *Pipe::open() {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return "pipe";
    }
    ours = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
    for (Descriptor *end : {&ours, &theirs}) {
        *end = Descriptor(moved_up(end->get()));
        if (end->get() < 0) {
            return "dup";
        }
    }
    return fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0 ? "fcntl" : nullptr;
}

std::string how_it_ended(const ProcessEnd &end) {
    if (!end.known) {
        return "";
    }
    if (WIFSIGNALED(end.status)) {
        const int signal = WTERMSIG(end.status);
        return fmt::format(", by signal {} ({})", signal,
                           strsignal(signal)); // NOLINT(concurrency-mt-unsafe): glibc's is
    }
    return fmt::format(", with exit code {}", WEXITSTATUS(end.status));
}

ChildStart::ChildStart() {
    sigset_t all;
    sigfillset(&all);
    begin_session();
    unblock_signals();
    reset_signals(all);
    give_nothing(STDIN_FILENO);
}

ChildProcess::ChildProcess(pid_t process, Descriptor status)
    : process_(process), handle_(open_handle(process)), status_(std::move(status)),
      timer_slack_(syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
    prctl(PR_SET_TIMERSLACK, 1); // nanosecond
}

ChildProcess::~ChildProcess() {
    reap();
    prctl(PR_SET_TIMERSLACK, timer_slack_);
}

bool ChildProcess::ended() const {
    siginfo_t info{};
    const auto failed =
        TEMP_FAILURE_RETRY(waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT));
    if (failed != 0 && errno != ECHILD) { // ECHILD: other code has reaped the child
        throw ChannelFailure("waitid", errno);
    }
    return failed != 0 || info.si_pid != 0;
}

bool ChildProcess::wait_until(Clock::time_point deadline) const {
    while (!ended()) {
        const int left = milliseconds_until(deadline);
        if (left == 0) {
            return false;
        }
        pollfd end = {handle(), POLLIN, 0};
        if (poll(&end, 1, longest_wait(left)) < 0 && errno != EINTR) {
            throw ChannelFailure("poll", errno);
        }
    }
    return true;
}

ProcessEnd ChildProcess::reap() {
    if (process_ > 0) {
        siginfo_t info{};
        const auto watched =
            TEMP_FAILURE_RETRY(waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT));
        if (watched == 0 || errno != ECHILD) { // until it is reaped, no other group can have its number
            kill(-process_, SIGKILL);
        }
        const auto reaped = TEMP_FAILURE_RETRY(waitpid(process_, &end_.status, 0));
        int said = 0;
        const bool is_said =
            TEMP_FAILURE_RETRY(read(status_.get(), &said, sizeof said)) == static_cast<ssize_t>(sizeof said);
        end_.confined = !is_said || said != OPDOCK_PROBE_UNCONFINED;
        // The program may reap all children itself, or ignore SIGCHLD.
        end_.known = reaped == process_ || is_said;
        end_.status = reaped == process_ ? end_.status : said;
        process_ = -1;
    }
    return end_;
}

int milliseconds_until(ChildProcess::Clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - ChildProcess::Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, 1 << 30));
}

} // namespace opdock::core
