#include "machine.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <thread>

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/variables.hpp"

namespace opdock::plugin_ls {
namespace {

constexpr std::array<std::string_view, 8> others = {
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "ROCR_VISIBLE_DEVICES", "XDG_CACHE_HOME",      "XDG_CONFIG_HOME", "XDG_DATA_HOME",
};

template<class Range>
bool contains(const Range &range, std::string_view name) {
    return std::find(range.begin(), range.end(), name) != range.end();
}

// The text after `key` and `separator` on the first line that starts with `key`.
std::string value_in(const char *path, std::string_view key, char separator) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const size_t end = line.find(separator);
        if (line.starts_with(key) && end != std::string::npos) {
            std::string value = line.substr(line.find_first_not_of(" \t\"", end + 1));
            while (!value.empty() && (value.back() == '"' || value.back() == ' ')) {
                value.pop_back();
            }
            return value;
        }
    }
    return "unknown";
}

std::string kernel_of_machine() {
    utsname name{};
    if (uname(&name) != 0) {
        return "unknown";
    }
    return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string file_of(const void *symbol) {
    Dl_info info{};
    return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "unknown";
}

} // namespace

std::vector<std::pair<std::string, std::string>> reported_variables(const std::vector<std::string> &environment) {
    const std::vector<std::string> settings = cli::variable_names();
    std::vector<std::pair<std::string, std::string>> variables;
    for (const std::string &entry : environment) {
        const size_t equals = entry.find('=');
        const std::string name = entry.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
        if (contains(others, name) || contains(settings, name)) {
            variables.emplace_back(name, value);
        } else if (name.starts_with(cli::variable_prefix())) {
            variables.emplace_back(name, "(not a variable of opdock; value withheld)");
        }
    }
    std::sort(variables.begin(), variables.end());
    return variables;
}

Machine look_at_machine(const void *library_symbol) {
    std::vector<std::string> environment;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        environment.emplace_back(*entry);
    }
    return {value_in("/etc/os-release", "PRETTY_NAME", '='), kernel_of_machine(),
            value_in("/proc/cpuinfo", "model name", ':') + ", " + std::to_string(std::thread::hardware_concurrency()) +
                " threads",
            file_of(library_symbol), reported_variables(environment)};
}

} // namespace opdock::plugin_ls
