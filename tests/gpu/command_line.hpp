// Command lines in which each option has a value, and the start of programs that use them.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpu_tests {

struct WrongUsage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The handler of each option's value. Throws WrongUsage for any other option.
using Options = std::map<std::string, std::function<void(const std::string &value)>>;
void parse(const std::vector<std::string> &arguments, const Options &options);

// Throws WrongUsage unless `value` is a whole number of at least `smallest`.
int number_of(const std::string &option, const std::string &value, int smallest);

// Calls run() with the arguments, or prints the usage for --help. Returns the exit code: that of run(), 2 after
// WrongUsage, or 1 after any other exception.
int run_program(const char *name, const char *usage, int argc, char **argv,
                const std::function<int(const std::vector<std::string> &arguments)> &run);

// Writes nothing if `path`, the value of --json, is empty.
void write_json(const std::string &path, const nlohmann::json &document);

} // namespace gpu_tests
