// Arguments of the form NAME=TEXT on a command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/suggest.hpp"

namespace opdock::op_call {

struct Named {
    std::string name;
    std::string text; // "" if it is optional and missing
};

// Parses the values given to `option`. `form` is the expected form, for the message. Throws cli::UsageError for a
// missing name or text; the text may be missing if `text_required` is false.
std::vector<Named> parse_named(const std::vector<std::string> &arguments, const std::string &option,
                               const std::string &form, bool text_required = true);

// Adds the option `name`, which may be repeated and takes an argument of the form `form`.
void add_named(cli::CommandLine &line, const std::string &name, const char *value, std::vector<Named> &into,
               const char *help, const std::string &form, bool text_required = true);
// NAME=SOURCE; `forms` explains SOURCE.
void add_sources(cli::CommandLine &line, const char *name, std::vector<Named> &into, const char *help,
                 const char *forms);
// --shape NAME=DTYPE[DIMS], and --attr below.
void add_shapes(cli::CommandLine &line, std::vector<Named> &into, const char *help);
void add_attributes(cli::CommandLine &line, std::vector<Named> &into,
                    const char *help = "an attribute; lists of int are written 1,2,3");

using cli::names_of;

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
