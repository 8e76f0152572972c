#include "process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <pty.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temporary_directory.hpp"

namespace opdock::test {
namespace {

void check(int error, const char *what) {
    if (error != 0) {
        throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
    }
}

// A file descriptor, closed on destruction.
class Descriptor {
  public:
    explicit Descriptor(int number, const char *what) : number_(number) { check(number < 0 ? errno : 0, what); }
    ~Descriptor() { close(number_); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;

    int number() const { return number_; }

  private:
    int number_;
};

// Pointers to the texts, followed by a null pointer.
std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> result;
    for (std::string &text : texts) {
        result.push_back(text.data());
    }
    result.push_back(nullptr);
    return result;
}

std::string content(const std::filesystem::path &file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
}

int open_for_writing(const std::filesystem::path &file) {
    return open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

// Returns the exit code, or 128 + the signal that ended the child.
int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        check(errno == EINTR ? 0 : errno, "waitpid");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

Command::Command(std::string program) : program_(std::move(program)) {
    // The tools need the same sanitizer options and library path as the test.
    for (const char *name : {"ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"}) {
        if (const char *value = std::getenv(name); value != nullptr) {
            environment_[name] = value;
        }
    }
}

int Command::start(const std::vector<std::string> &arguments, int out, int err) const {
    std::vector<std::string> argument_texts = {program_};
    argument_texts.insert(argument_texts.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables;
    for (const auto &[name, value] : environment_) {
        variables.push_back(name + "=" + value);
    }
    posix_spawn_file_actions_t actions;
    check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
    check(posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0), "stdin");
    check(posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO), "stdout");
    check(posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO), "stderr");
    pid_t child = 0;
    const int error = posix_spawn(&child, program_.c_str(), &actions, nullptr, pointers(argument_texts).data(),
                                  pointers(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    check(error, program_.c_str());
    return child;
}

int Command::start_and_wait(const std::vector<std::string> &arguments, int out, int err) const {
    return wait_for(start(arguments, out, err));
}

Finished Command::run_and_interrupt(const std::vector<std::string> &arguments, const std::string &marker,
                                    int signal) const {
    const TemporaryDirectory directory;
    const auto out = directory.path() / "out";
    int ends[2];
    check(pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
    const Descriptor from_child(ends[0], "pipe2");
    Finished finished{name(), 0, "", ""};
    pid_t child = 0;
    {
        const Descriptor to_err(ends[1], "pipe2");
        const Descriptor to_out(open_for_writing(out), "out");
        child = start(arguments, to_out.number(), to_err.number());
    }
    char buffer[4096];
    for (ssize_t n = 0; (n = read(from_child.number(), buffer, sizeof buffer)) > 0;) {
        const bool was_there = finished.err.find(marker) != std::string::npos;
        finished.err.append(buffer, static_cast<size_t>(n));
        if (!was_there && finished.err.find(marker) != std::string::npos) {
            check(kill(child, signal) == 0 ? 0 : errno, "kill");
        }
    }
    finished.code = wait_for(child);
    finished.out = content(out);
    return finished;
}

// Redirects to files, so that neither stream can fill up while the other is read.
Finished Command::run(const std::vector<std::string> &arguments) const {
    const TemporaryDirectory directory;
    const auto out = directory.path() / "out";
    const auto err = directory.path() / "err";
    int code = 0;
    {
        const Descriptor to_out(open_for_writing(out), "out");
        const Descriptor to_err(open_for_writing(err), "err");
        code = start_and_wait(arguments, to_out.number(), to_err.number());
    }
    return {name(), code, content(out), content(err)};
}

Finished Command::run_on_terminal(const std::vector<std::string> &arguments, unsigned short columns) const {
    const Descriptor terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt");
    check(grantpt(terminal.number()) == 0 ? 0 : errno, "grantpt");
    check(unlockpt(terminal.number()) == 0 ? 0 : errno, "unlockpt");
    const Descriptor end(open(ptsname(terminal.number()), O_RDWR | O_NOCTTY | O_CLOEXEC), "the terminal's other end");
    const winsize size{24, columns, 0, 0};
    check(ioctl(terminal.number(), TIOCSWINSZ, &size) == 0 ? 0 : errno, "TIOCSWINSZ");
    Finished finished{name(), start_and_wait(arguments, end.number(), end.number()), "", ""};
    // Reads after the process has ended: the output fits into the terminal's buffer (4 KiB).
    check(fcntl(terminal.number(), F_SETFL, O_NONBLOCK) == 0 ? 0 : errno, "O_NONBLOCK");
    char buffer[4096];
    for (ssize_t n = 0; (n = read(terminal.number(), buffer, sizeof buffer)) > 0;) {
        finished.out.append(buffer, static_cast<size_t>(n));
    }
    return finished;
}

Finished Command::run_with_terminal(const std::vector<std::string> &arguments,
                                    const std::vector<std::string> &answers) const {
    std::vector<std::string> argument_texts = {program_};
    argument_texts.insert(argument_texts.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables;
    for (const auto &[name, value] : environment_) {
        variables.push_back(name + "=" + value);
    }
    const std::vector<char *> argument_list = pointers(argument_texts);
    const std::vector<char *> variable_list = pointers(variables);
    int number = -1;
    const pid_t child = forkpty(&number, nullptr, nullptr, nullptr);
    if (child == 0) {
        execve(program_.c_str(), argument_list.data(), variable_list.data());
        _exit(127);
    }
    const Descriptor terminal(number, "forkpty");
    Finished finished{name(), 0, "", ""};
    auto answer = answers.begin();
    size_t answered = 0; // bytes of `out` up to the last question answered
    char buffer[4096];
    // Reading fails once the other end is closed.
    for (ssize_t n = 0; (n = read(terminal.number(), buffer, sizeof buffer)) > 0;) {
        finished.out.append(buffer, static_cast<size_t>(n));
        if (answer != answers.end() && finished.out.size() > answered && finished.out.ends_with(": ")) {
            answered = finished.out.size();
            check(write(terminal.number(), answer->data(), answer->size()) < 0 ? errno : 0, "the terminal");
            ++answer;
        }
    }
    finished.code = wait_for(child);
    return finished;
}

} // namespace opdock::test
