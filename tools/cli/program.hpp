// Runs another program to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

struct Program {
    std::vector<std::string> arguments;   // the program first; without a slash it is searched in PATH
    std::vector<std::string> environment; // "NAME=VALUE" each
    std::string directory = ".";          // working directory
    size_t most_output = SIZE_MAX;        // in bytes; a program that prints more is killed
};

struct ProgramRun {
    int code = 0; // as in a shell: 128 + the signal that killed it
    std::string out;
    std::string err;
};

// The environment of this process, as "NAME=VALUE".
std::vector<std::string> own_environment();

// Passes `input` on stdin; SIGPIPE must be ignored if it is not empty, as the program may end early. Throws
// std::system_error, with std::errc::no_such_file_or_directory if the program does not exist.
ProgramRun run_program(const Program &program, std::string_view input = {});

} // namespace opdock::cli
