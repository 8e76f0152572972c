// The command line, by Boost.Program_options without its abbreviations: a script must not break when a new option makes
// a short spelling ambiguous.
#pragma once

#include <string>
#include <vector>

#include <boost/program_options.hpp>

namespace opdock::cli {

// `arguments` without the program's name. Throws UsageError, with near misses for an option that does not exist.
boost::program_options::variables_map
parse_arguments(const std::vector<std::string> &arguments, const boost::program_options::options_description &options,
                const boost::program_options::positional_options_description &positional = {});

// A path as the user of a shell means it: relative to where they are. Throws UsageError when it is empty.
std::string absolute_path(const std::string &path);

} // namespace opdock::cli
