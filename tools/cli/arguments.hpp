// The command line, by Boost.Program_options without its abbreviations: a script must not break when a new option makes
// a short spelling ambiguous.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "cli/exit.hpp"

namespace opdock::cli {

// `arguments` without the program's name; --format as read_format() has it. Throws UsageError, with near misses for an
// option that does not exist, and for a word of several lines: what such a name has after a line feed would stand in
// messages as a line of its own. The value of the option `prose` may have several.
boost::program_options::variables_map
parse_arguments(const std::vector<std::string> &arguments, const boost::program_options::options_description &options,
                const boost::program_options::positional_options_description &positional = {},
                const std::string &prose = "");

// "; did you mean '--out'?" for an option that means what one of `options` does, such as "output"; "" for any other.
std::string same_among(const std::vector<const char *> &options, const std::string &option);

// True where `option` is one that a command takes. --format is taken where --json is, and not listed.
bool takes(const std::vector<const char *> &options, const std::string &option);

// A path as the user of a shell means it: relative to where they are. Throws UsageError when it is empty, or where they
// are has a line feed in its name.
std::string absolute_path(const std::string &path);

// The name of an op as opdock has it: "gelu_bwd" for "dgelu", which is Transformer Engine's.
std::string op_called(const std::string &name);

// The only one of `words`, as op_called() has it; "" where there is none. Throws UsageError for a second one.
std::string one_op(const std::vector<std::string> &words);

// A whole number in this range. Throws UsageError.
uint64_t parse_number(const std::string &text, const std::string &option, uint64_t minimum, uint64_t maximum);

// The index of `text` among the values that `option` has. Throws UsageError, with near misses.
size_t parse_choice(const std::string &text, const std::string &option, const std::vector<std::string> &values);

// Seconds: "90", "90s", "500ms", "2m", "1h". Throws UsageError.
double parse_duration(const std::string &text, const std::string &option);

} // namespace opdock::cli
