// The suspects: implementations of the ops that a command calls, any of which may make its result wrong, each with the
// ones that may serve in its place.
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

// The implementations that served calls, and the ops, according to opdock's log. Sorted, without duplicates.
std::vector<Suspect> served_in(const std::string &log);

struct Cleared {
    Suspect who;
    std::string reason;
};

struct Suspects {
    std::vector<Suspect> all; // in order of ops
    std::vector<Cleared> not_suspected;
    std::map<std::string, std::vector<std::string>>
        others; // per op of `all`: tokens for everything but its suspects, in order

    // The value of the variable PER_OP under which the active suspects serve as before and the others are replaced.
    // `before` is the user's own value, which is kept for other ops. Throws cli::Failure if a host would not read all
    // of the value.
    std::string per_op(const Members &active, const std::string &before) const;
};

// Throws Error if the text is not an order as in PLUGIN_PER_OP.
void check_order(const Host &host, const std::string &order);

// The suspects among those that served or, if these are unknown, among the heads of all chains. `good` is an order;
// implementations named by its first token are not suspects. `ops`: only these ops, unless empty.
Suspects suspects_of(const Host &host, const std::optional<std::vector<Suspect>> &served, const std::string &good,
                     const std::vector<std::string> &ops);

} // namespace opdock::plugin_bisect
