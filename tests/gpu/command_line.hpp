// Command lines of options that each have a value, and programs that are started by them.
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

// What is done with the value of each option. Throws WrongUsage for any other.
using Options = std::map<std::string, std::function<void(const std::string &value)>>;
void parse(const std::vector<std::string> &arguments, const Options &options);

// Throws WrongUsage unless it is a whole number of at least `smallest`.
int number_of(const std::string &option, const std::string &value, int smallest);

// run() with the arguments, or --help. Returns the exit code: what run() returns, 2 after WrongUsage, or 1 after any
// other exception.
int run_program(const char *name, const char *usage, int argc, char **argv,
                const std::function<int(const std::vector<std::string> &arguments)> &run);

// Nothing where `path`, the value of --json, is empty.
void write_json(const std::string &path, const nlohmann::json &document);

} // namespace gpu_tests
