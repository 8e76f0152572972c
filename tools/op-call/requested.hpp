// Modules and implementations that a command line asks for by name.
#pragma once

#include <string>
#include <vector>

#include "opdock/opdock.hpp"

namespace opdock::op_call {

// Throws cli::Failure, with the reason, for a file of --modules that was not taken: whoever names one wants that one.
void check_modules(const Host &host, const std::vector<std::string> &modules);

struct Implementation {
    std::string id;
    std::string device; // its type
};

// In the order of opdock_describe.
std::vector<Implementation> implementations_of(const Host &host, const std::string &op);

// A policy by which nothing but `impl` may serve the op. Throws cli::Failure, with near misses, when it has none of
// that name.
Policy only(const Host &host, const std::string &op, const std::string &impl);

// Nothing but this implementation, which is one of the op's, and no fallback.
Policy nothing_but(const Host &host, const std::string &op, const std::string &impl);

} // namespace opdock::op_call
