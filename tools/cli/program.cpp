#include "cli/program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "files/spawn.hpp"

namespace opdock::cli {
namespace {

[[noreturn]] void fail(const std::string &what, int error) {
    throw std::system_error(error, std::generic_category(), what);
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

struct Pipe {
    Pipe() {
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC) != 0) {
            fail("pipe", errno);
        }
        from = core::Descriptor(ends[0]);
        into = core::Descriptor(ends[1]);
    }

    core::Descriptor from; // the end to read from
    core::Descriptor into; // the end to write to
};

pid_t start(Program program, const Pipe &in, const Pipe &out, const Pipe &err) {
    core::Spawn spawn;
    spawn.work_in(program.directory.c_str());
    spawn.give(in.from.get(), STDIN_FILENO);
    spawn.give(out.into.get(), STDOUT_FILENO);
    spawn.give(err.into.get(), STDERR_FILENO);
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    spawn.reset_signals(pipe);
    pid_t process = -1;
    if (const int error =
            spawn.run(pointers_to(program.arguments).data(), pointers_to(program.environment).data(), &process);
        error != 0) {
        fail(program.arguments.front(), error);
    }
    return process;
}

// Reads what is available; closes the pipe at its end.
void take(Pipe &pipe, std::string &text) {
    std::array<char, 65536> bytes; // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    const ssize_t count = ::read(pipe.from.get(), bytes.data(), bytes.size());
    if (count > 0) {
        text.append(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
        pipe.from.close();
    }
}

// Writes what the pipe takes; closes it when everything is written, or nobody reads.
void give(Pipe &pipe, std::string_view &text) {
    const ssize_t count = ::write(pipe.into.get(), text.data(), std::min<size_t>(text.size(), 65536));
    if (count > 0) {
        text.remove_prefix(static_cast<size_t>(count));
    }
    if (text.empty() || (count < 0 && errno != EINTR && errno != EAGAIN)) {
        pipe.into.close();
    }
}

} // namespace

std::vector<std::string> own_environment() {
    std::vector<std::string> variables;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        variables.emplace_back(*entry);
    }
    return variables;
}

ProgramRun run_program(const Program &program, std::string_view input) {
    Pipe in, out, err;
    ::fcntl(in.into.get(), F_SETFL, O_NONBLOCK);
    const pid_t process = start(program, in, out, err);
    in.from.close();
    out.into.close();
    err.into.close();
    ProgramRun run;
    if (input.empty()) {
        in.into.close();
    }
    while (out.from.get() >= 0 || err.from.get() >= 0) { // poll() ignores negative ones
        std::array<pollfd, 3> ends = {pollfd{in.into.get(), POLLOUT, 0}, pollfd{out.from.get(), POLLIN, 0},
                                      pollfd{err.from.get(), POLLIN, 0}};
        if (::poll(ends.data(), ends.size(), -1) < 0) {
            if (errno != EINTR) {
                fail("poll", errno);
            }
            continue;
        }
        if (ends[0].revents != 0) {
            give(in, input);
        }
        if (ends[1].revents != 0) {
            take(out, run.out);
        }
        if (ends[2].revents != 0) {
            take(err, run.err);
        }
        if (run.out.size() > program.most_output) {
            ::kill(process, SIGKILL);
            out.from.close();
        }
    }
    in.into.close();
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return run;
}

} // namespace opdock::cli
