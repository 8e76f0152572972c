// The command line, by Boost.Program_options without its abbreviations: a script must not break when a new option makes
// a short spelling ambiguous.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"

namespace opdock::cli {

// `arguments` without the program's name; --format as read_format() has it. Throws UsageError, with near misses for an
// option that does not exist, and for a word of several lines: what such a name has after a line feed would stand in
// messages as a line of its own. The value of the option `prose` may have several.
boost::program_options::variables_map
parse_arguments(const std::vector<std::string> &arguments, const boost::program_options::options_description &options,
                const boost::program_options::positional_options_description &positional = {},
                const std::string &prose = "");

// For tools with commands, each with a `name` and the `options` that it takes. Throws UsageError, with near misses.
template<class Command>
const Command &find_command(const std::vector<Command> &commands, const std::string &name) {
    std::vector<std::string> names;
    for (const Command &command : commands) {
        if (command.name == name) {
            return command;
        }
        names.emplace_back(command.name);
    }
    throw UsageError("unknown command '" + name + "'" + did_you_mean(name, names));
}

// The help of a tool: `introduction`, which begins with its usage, the options and `examples`. Where the first of
// `words` is a command of `commands`, only what is about that: its usage, its paragraph, what its usage speaks of ("A
// FILTER is
// ..."), its options and its examples.
std::string help_of(const std::string &introduction, const boost::program_options::options_description &options,
                    const std::string &examples);
std::string help_of(const std::string &introduction, const boost::program_options::options_description &options,
                    const std::string &examples, const std::string &command,
                    const std::vector<const char *> &options_of_command);
template<class Command>
std::string help_of(const std::string &introduction, const boost::program_options::options_description &options,
                    const std::string &examples, const std::vector<Command> &commands,
                    const std::vector<std::string> &words) {
    for (const Command &command : commands) {
        if (!words.empty() && words.front() == command.name) {
            return help_of(introduction, options, examples, command.name, command.options);
        }
    }
    return help_of(introduction, options, examples);
}

// "; did you mean '--out'?" for an option that means what one of `options` does, such as "output"; "" for any other.
std::string same_among(const std::vector<const char *> &options, const std::string &option);

// True where `option` is one that a command takes. --format is taken where --json is, and not listed.
bool takes(const std::vector<const char *> &options, const std::string &option);

// A path as the user of a shell means it: relative to where they are. Throws UsageError when it is empty, or where they
// are has a line feed in its name.
std::string absolute_path(const std::string &path);

// The name of an op as opdock has it: "gelu_bwd" for "dgelu", which is Transformer Engine's.
std::string op_called(const std::string &name);

// A whole number in this range. Throws UsageError.
uint64_t parse_number(const std::string &text, const std::string &option, uint64_t minimum, uint64_t maximum);

// Seconds: "90", "90s", "500ms", "2m", "1h". Throws UsageError.
double parse_duration(const std::string &text, const std::string &option);

} // namespace opdock::cli
