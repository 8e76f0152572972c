// Near misses: what somebody who typed this probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opdock::cli {

// Equal but for the case of ASCII letters, as policies compare names.
bool same_name(std::string_view a, std::string_view b);

// Whether `name` is one of `wanted`, or nothing is wanted in particular.
bool is_wanted(const std::vector<std::string> &wanted, std::string_view name);

// Of a list of things that have names.
template<class List>
std::vector<std::string> names_of(const List &list) {
    std::vector<std::string> names;
    names.reserve(list.size());
    for (const auto &one : list) {
        names.push_back(one.name);
    }
    return names;
}

// At most three of `known`, best first: those a typing mistake or two away, then those that contain `typed`.
std::vector<std::string> near_misses(std::string_view typed, const std::vector<std::string> &known);

// "; did you mean 'a', 'b' or 'c'?", or nothing when nothing is near.
std::string did_you_mean(std::string_view typed, const std::vector<std::string> &known);

} // namespace opdock::cli
