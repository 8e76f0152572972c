// The machine and the environment of plugin-ls, for bug reports.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace opdock::plugin_ls {

struct Machine {
    std::string system;    // "Debian GNU/Linux 12 (bookworm)"
    std::string kernel;    // "Linux 6.1.0 x86_64"
    std::string processor; // "AMD EPYC 9554, 16 threads"
    std::string library;   // the libopdock in use
    std::vector<std::pair<std::string, std::string>> variables;
};

// `library_symbol` is the address of any function of libopdock.
Machine look_at_machine(const void *library_symbol);

// Selects from NAME=VALUE texts those that opdock or the loader reads, sorted. A variable that starts with the prefix
// but is unknown to opdock is listed by name, since it may be a misspelling; its value is withheld, since it may be a
// secret.
std::vector<std::pair<std::string, std::string>> reported_variables(const std::vector<std::string> &environment);

} // namespace opdock::plugin_ls
