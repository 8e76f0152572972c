// Modules and implementations that a command line names.
#pragma once

#include <string>
#include <vector>

#include "opdock/opdock.hpp"

namespace opdock::op_call {

// Throws cli::Failure, with the reason, if a file of --modules was not loaded: whoever names a file wants that one.
void check_modules(const Host &host, const std::vector<std::string> &modules);

struct Implementation {
    std::string id;
    std::string device; // device type
};

// In the order of opdock_describe.
std::vector<Implementation> implementations_of(const Host &host, const std::string &op);

// A policy under which only `impl` may serve the op. Throws cli::Failure, with near misses, if the op has no
// implementation of that name.
Policy only(const Host &host, const std::string &op, const std::string &impl);

// Only this implementation, which must be one of the op's, without fallback. An order that the machine's policy
// enforces still takes precedence over that of a program.
Policy nothing_but(const Host &host, const std::string &op, const std::string &impl);

// The message for an enforced order under which `other` serves in place of `impl`.
std::string not_served_by(const std::string &impl, const std::string &other);

// A call of the op, prepared for this implementation. Throws Error, also if another implementation would serve it.
Prepared prepare_for(const Host &host, const std::string &op, const std::string &impl, const Args &args);

} // namespace opdock::op_call
