#include "run.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "files/descriptor.hpp"
#include "files/spawn.hpp"

namespace opdock::plugin_bisect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int milliseconds_between_questions = 200;

[[noreturn]] void fail(const std::string &what, int error) {
    throw cli::Failure(what + ": " + std::generic_category().message(error));
}

core::Descriptor made(const std::string &path) {
    core::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) {
        fail(path, errno);
    }
    return file;
}

std::vector<char *> pointers_to(std::vector<std::string> &texts) {
    std::vector<char *> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string &text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

pid_t start(std::vector<std::string> command, std::vector<std::string> environment, int out, int err) {
    core::Spawn spawn;
    spawn.give_nothing(STDIN_FILENO);
    spawn.give(out, STDOUT_FILENO);
    spawn.give(err, STDERR_FILENO);
    spawn.begin_session();
    pid_t process = -1;
    if (const int error = spawn.run(pointers_to(command).data(), pointers_to(environment).data(), &process);
        error != 0) {
        fail("cannot start the command '" + command.front() + "'", error);
    }
    return process;
}

// Waits for the process to end without reaping it: its number, which is also its session's, stays valid.
void wait_for_end(pid_t process, double timeout, const std::function<bool(double seconds)> &goes_on, Ended *ended) {
    const core::Descriptor watched(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (watched.get() < 0) {
        fail("cannot watch the process", errno);
    }
    const Clock::time_point begin = Clock::now();
    for (;;) {
        pollfd one = {watched.get(), POLLIN, 0};
        const int ready = ::poll(&one, 1, milliseconds_between_questions);
        ended->seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (ready > 0) {
            return;
        }
        ended->interrupted = !goes_on(ended->seconds);
        ended->timed_out = !ended->interrupted && timeout > 0 && ended->seconds >= timeout;
        if (ended->interrupted || ended->timed_out) {
            return;
        }
    }
}

} // namespace

Ended run_command(const std::vector<std::string> &command, const std::vector<std::string> &environment,
                  const std::string &out, const std::string &err, double timeout,
                  const std::function<bool(double seconds)> &goes_on) {
    pid_t process = -1;
    {
        const core::Descriptor to_out = made(out);
        const core::Descriptor to_err = made(err);
        process = start(command, environment, to_out.get(), to_err.get());
    }
    Ended ended;
    try {
        wait_for_end(process, timeout, goes_on, &ended);
    } catch (...) {
        ::kill(-process, SIGKILL);
        ::waitpid(process, nullptr, 0);
        throw;
    }
    ::kill(-process, SIGKILL); // ends the process, or whatever it left behind
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended;
}

} // namespace opdock::plugin_bisect
