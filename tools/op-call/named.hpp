// NAME=TEXT on a command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace opdock::op_call {

struct Named {
    std::string name;
    std::string text; // "" where it may be missing and is
};

// What `option` was given. `form` is what was expected, for the message. Throws cli::UsageError for a name or a text
// that is missing; the text may be where `text_required` is false.
std::vector<Named> parse_named(const std::vector<std::string> &arguments, const std::string &option,
                               const std::string &form, bool text_required = true);

// Of a list of things that have names.
template<class List>
std::vector<std::string> names_of(const List &list) {
    std::vector<std::string> names;
    for (const auto &one : list) {
        names.push_back(one.name);
    }
    return names;
}

template<class List>
std::optional<size_t> find_named(const List &list, const std::string &name) {
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].name == name) {
            return i;
        }
    }
    return std::nullopt;
}

} // namespace opdock::op_call
