#include "cli/program.hpp"

#include <csignal>
#include <system_error>

#include <doctest/doctest.h>

using namespace opdock::cli;

namespace {

ProgramRun shell(const std::string &script, std::string_view input = {}) {
    return run_program({{"sh", "-c", script}, own_environment()}, input);
}

} // namespace

TEST_CASE("a program gets what it is given, and what it prints and how it ended comes back") {
    const ProgramRun run = shell("read line; echo \"out $line\"; echo err >&2; exit 3", "given\n");
    CHECK(run.code == 3);
    CHECK(run.out == "out given\n");
    CHECK(run.err == "err\n");
    CHECK(shell("kill -9 $$").code == 128 + SIGKILL);
    CHECK(run_program({{"sh", "-c", "echo $A; pwd"}, {"A=b", "PATH=/usr/bin:/bin"}, "/"}).out == "b\n/\n");
}

TEST_CASE("more than a pipe holds goes both ways, also to a program that does not read it") {
    std::signal(SIGPIPE, SIG_IGN);
    const std::string much(3'000'000, 'x');
    CHECK(shell("cat", much).out == much);
    CHECK(shell("exit 0", much).code == 0);
    std::signal(SIGPIPE, SIG_DFL);
}

TEST_CASE("a program that prints more than it may is ended") {
    Program endless{{"sh", "-c", "while :; do echo yes; done"}, own_environment()};
    endless.most_output = 1000;
    const ProgramRun run = run_program(endless);
    CHECK(run.out.size() > 1000);
    CHECK(run.code == 128 + SIGKILL);
}

TEST_CASE("a program that is not there is told from one that cannot be run") {
    const auto code_of = [](const std::string &program) {
        try {
            (void)run_program({{program}, own_environment()});
        } catch (const std::system_error &error) {
            return error.code();
        }
        return std::error_code();
    };
    CHECK(code_of("no-such-program-of-opdock") == std::errc::no_such_file_or_directory);
    CHECK(code_of("/etc/passwd") == std::errc::permission_denied);
}
