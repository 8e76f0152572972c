// Command line parsing by Boost.Program_options, without abbreviations: a new option must not break scripts by making
// a short spelling ambiguous.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "cli/exit.hpp"

namespace opdock::cli {

// `arguments` without the program's name; --format as for read_format(). Throws UsageError, with near misses, for an
// unknown option, and for an argument with line feeds: in a message, the text after a line feed would look like a line
// of its own. Only the value of the option `prose` may have several lines.
boost::program_options::variables_map
parse_arguments(const std::vector<std::string> &arguments, const boost::program_options::options_description &options,
                const boost::program_options::positional_options_description &positional = {},
                const std::string &prose = "");

// "; did you mean '--out'?" for a synonym of one of `options`, such as "output"; "" for any other.
std::string same_among(const std::vector<const char *> &options, const std::string &option);

// True if a command takes `option`. --format is taken where --json is, and need not be listed.
bool takes(const std::vector<const char *> &options, const std::string &option);

// Makes a path of the command line absolute, from the working directory. Throws UsageError if `path` is empty or the
// name of the working directory has a line feed.
std::string absolute_path(const std::string &path);

// opdock's name of an op: "gelu_bwd" for Transformer Engine's "dgelu".
std::string op_called(const std::string &name);

// The only one of `words`, as op_called() returns it; "" if there is none. Throws UsageError for a second word.
std::string one_op(const std::vector<std::string> &words);

// Parses a whole number in this range. Throws UsageError.
uint64_t parse_number(const std::string &text, const std::string &option, uint64_t minimum, uint64_t maximum);

// The index of `text` among the values of `option`. Throws UsageError, with near misses.
size_t parse_choice(const std::string &text, const std::string &option, const std::vector<std::string> &values);

// Parses a duration to seconds: "90", "90s", "500ms", "2m", "1h". Throws UsageError.
double parse_duration(const std::string &text, const std::string &option);

} // namespace opdock::cli
