// Another program, run to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

struct Program {
    std::vector<std::string> arguments;   // the program first, searched in PATH when it has no slash
    std::vector<std::string> environment; // "NAME=VALUE" each
    std::string directory = ".";          // where it runs
    size_t most_output = SIZE_MAX;        // bytes; a program that prints more is ended
};

struct ProgramRun {
    int code = 0; // as a shell has it: 128 + the signal that ended it
    std::string out;
    std::string err;
};

// "NAME=VALUE" of each variable of this process.
std::vector<std::string> own_environment();

// Gives it `input` on stdin; SIGPIPE must be ignored where that is not empty, as the program may end early. Throws
// std::system_error, for a program that is not there with std::errc::no_such_file_or_directory.
ProgramRun run_program(const Program &program, std::string_view input = {});

} // namespace opdock::cli
