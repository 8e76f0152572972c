// Who may make a result wrong: implementations of ops that a command calls, each with those that may serve in its
// place.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opdock/opdock.hpp"
#include "search.hpp"

namespace opdock::plugin_bisect {

struct Suspect {
    std::string op;
    std::string impl_id;

    auto operator<=>(const Suspect &) const = default;
};

// Who served calls of which op, by opdock's log. Sorted, each once.
std::vector<Suspect> served_in(const std::string &log);

struct Cleared {
    Suspect who;
    std::string reason;
};

struct Suspects {
    std::vector<Suspect> all; // by op
    std::vector<Cleared> not_suspected;
    std::map<std::string, std::vector<std::string>>
        others; // per op of `all`: tokens for all but its suspects, in order

    // The value of the variable PER_OP with which the active ones serve as before, and the others are replaced.
    // `before` is its value as the user has it, which stays for other ops. Throws cli::Failure where a host would not
    // read all of it.
    std::string per_op(const Members &active, const std::string &before) const;
};

// Throws Error for a text that is no order as PLUGIN_PER_OP has it.
void check_order(const Host &host, const std::string &order);

// Of those that served; without them, of the heads of all orders. `good` is an order; what its first token names is
// no suspect. `ops`: these alone, unless empty.
Suspects suspects_of(const Host &host, const std::optional<std::vector<Suspect>> &served, const std::string &good,
                     const std::vector<std::string> &ops);

} // namespace opdock::plugin_bisect
