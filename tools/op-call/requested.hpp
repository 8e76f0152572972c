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

// Nothing but this implementation, which is one of the op's, and no fallback: unless the machine's policy enforces an
// order of its own, which goes before that of a program.
Policy nothing_but(const Host &host, const std::string &op, const std::string &impl);

// The message for such an order, by which `other` serves in the place of `impl`.
std::string not_served_by(const std::string &impl, const std::string &other);

// A call of the op prepared for this implementation. Throws Error: also where another one would serve it.
Prepared prepare_for(const Host &host, const std::string &op, const std::string &impl, const Args &args);

} // namespace opdock::op_call
