#include "process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "files/spawn.hpp"
#include "message.hpp"

extern char **environ; // NOLINT(readability-redundant-declaration): POSIX leaves it to programs

namespace opdock::plugin_check {
namespace {

[[noreturn]] void fail(const char *what, int error) {
    throw cli::Failure(std::string(what) + ": " + std::generic_category().message(error));
}

// Above the descriptors that a worker finds open, so that moving one into place closes none of the others.
int moved_up(int descriptor) {
    if (descriptor < 0) {
        fail("cannot start a process for the plugin", errno);
    }
    const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, exchange_descriptor + 1);
    const int error = errno;
    close(descriptor);
    if (moved < 0) {
        fail("cannot start a process for the plugin", error);
    }
    return moved;
}

int milliseconds_to(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
}

// Processes that were started and not waited for yet.
std::set<pid_t> &workers() {
    static std::set<pid_t> all;
    return all;
}

// Ends processes whose parents have ended and that had left their process group. Some systems do not list them.
void end_orphans() {
    constexpr int most_rounds = 1000; // in case processes start others meanwhile
    for (int round = 0; round < most_rounds; ++round) {
        std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
        bool is_there = false;
        for (pid_t child = 0; children >> child;) {
            if (!workers().contains(child)) {
                is_there = true;
                kill(child, SIGKILL);
                waitpid(child, nullptr, 0);
            }
        }
        if (!is_there) {
            return;
        }
    }
}

} // namespace

void keep_to_itself() {
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void give_up_reach() {
    constexpr std::array<unsigned, 7> rights = {CAP_SYS_PTRACE,
                                                CAP_SYS_ADMIN,
                                                CAP_SYS_MODULE,
                                                CAP_SYS_RAWIO,
                                                38 /* PERFMON */,
                                                39 /* BPF */,
                                                40 /* CHECKPOINT_RESTORE */};
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> held{};
    if (syscall(SYS_capget, &header, held.data()) != 0) {
        return;
    }
    for (const unsigned right : rights) {
        prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
        __user_cap_data_struct &part = held.at(right / 32);
        const uint32_t others = ~(1u << right % 32);
        part.permitted &= others;
        part.effective &= others;
        part.inheritable &= others;
    }
    (void)syscall(SYS_capset, &header, held.data());
}

Process::Process(const std::string &program, const std::string &job)
    : errors_(moved_up(memfd_create("stderr", MFD_CLOEXEC))),
      exchange_(moved_up(memfd_create("exchange", MFD_CLOEXEC))) {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        fail("cannot start a process for the plugin", errno);
    }
    socket_ = core::Descriptor(moved_up(ends[0]));
    const core::Descriptor theirs(moved_up(ends[1]));
    core::Spawn spawn;
    spawn.give_nothing(STDIN_FILENO);
    spawn.drop(STDOUT_FILENO);
    spawn.give(errors_.get(), STDERR_FILENO);
    spawn.give(theirs.get(), message_descriptor);
    spawn.give(exchange_.get(), exchange_descriptor);
    spawn.begin_session(); // together with its forks
    const std::string option = "--worker";
    char *arguments[] = {const_cast<char *>(program.c_str()), const_cast<char *>(option.c_str()),
                         const_cast<char *>(job.c_str()), nullptr};
    if (const int error = spawn.run(arguments, environ, &process_); error != 0) {
        fail("cannot start a process for the plugin", error);
    }
    workers().insert(process_);
}

Process::~Process() {
    if (process_ > 0) {
        end();
        wait();
    }
}

bool Process::send(const std::string &packet) {
    for (;;) {
        if (::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) >= 0) {
            return true;
        }
        if (errno != EINTR) {
            return false;
        }
    }
}

Process::News Process::next(std::string &packet, Clock::time_point deadline) {
    for (;;) {
        pollfd one = {socket_.get(), POLLIN, 0};
        const int ready = poll(&one, 1, milliseconds_to(deadline));
        if (ready < 0 && errno != EINTR) {
            fail("poll", errno);
        }
        if (ready <= 0) {
            if (Clock::now() >= deadline) {
                return News::silence;
            }
            continue;
        }
        packet.resize(largest_packet);
        const ssize_t count = recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (count < 0 || (count == 0 && (one.revents & POLLHUP) != 0)) {
            return News::end;
        }
        packet.resize(static_cast<size_t>(count));
        return News::packet;
    }
}

bool Process::ends_within(double seconds) const {
    const core::Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
    if (process.get() < 0) {
        fail("cannot watch the process", errno);
    }
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (;;) {
        const int left = milliseconds_to(deadline);
        pollfd one = {process.get(), POLLIN, 0};
        const int ready = poll(&one, 1, left);
        if (ready > 0 || left <= 0) {
            return ready > 0;
        }
    }
}

int Process::wait() {
    siginfo_t info = {};
    while (waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    kill(-process_, SIGKILL); // its number cannot have been reused yet
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    workers().erase(process_);
    process_ = -1;
    end_orphans();
    return status;
}

void Process::end() {
    kill(process_, SIGKILL);
}

std::string Process::said() const {
    const off_t size = lseek(errors_.get(), 0, SEEK_END);
    std::string text(static_cast<size_t>(std::min<off_t>(std::max<off_t>(size, 0), 2000)), '\0');
    const ssize_t count = pread(errors_.get(), text.data(), text.size(), size - static_cast<off_t>(text.size()));
    text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    while (!text.empty() && text.back() == '\n') {
        text.pop_back();
    }
    return text;
}

} // namespace opdock::plugin_check
