// Near misses: names that the user probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

// Equal apart from the case of ASCII letters, as in policies.
bool same_name(std::string_view a, std::string_view b);

// True if `name` is one of `wanted`, or `wanted` is empty.
bool is_wanted(const std::vector<std::string> &wanted, std::string_view name);

// The names of a list of named elements.
template<class List>
std::vector<std::string> names_of(const List &list) {
    std::vector<std::string> names;
    names.reserve(list.size());
    for (const auto &one : list) {
        names.push_back(one.name);
    }
    return names;
}

// At most three of `known`, best first: those within two typing mistakes, then those that contain `typed`.
std::vector<std::string> near_misses(std::string_view typed, const std::vector<std::string> &known);

// "; did you mean 'a', 'b' or 'c'?", or "" if there are no near misses.
std::string did_you_mean(std::string_view typed, const std::vector<std::string> &known);

} // namespace opdock::cli
