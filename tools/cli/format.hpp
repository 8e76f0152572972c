// The option --format of all tools, and its abbreviation --json for --format json.
#pragma once

#include <string>
#include <vector>

#include <boost/program_options.hpp>

namespace opdock::cli {

// Adds both options. The formats are table, json and, if `options` already have --csv, csv. `keys` names the document
// that explains the keys of the JSON; `commands` is a prefix of both texts, such as "verify, digest: ", for tools of
// which only some commands print JSON.
void add_format(boost::program_options::options_description &options, const std::string &keys,
                const std::string &commands = "");

// Used by parse_arguments(): --format json also sets --json, --format table sets nothing. Throws UsageError for a
// format that the tool does not have, and for --json together with another format.
void read_format(const boost::program_options::options_description &options,
                 boost::program_options::variables_map &values);

// The option as the user gave it: "--out", and for "json" --json or "--format json".
std::string as_given(const boost::program_options::variables_map &values, const std::string &option);

// True if the command line requests JSON, even if it is wrong otherwise.
bool asks_for_json(const std::vector<std::string> &arguments);

} // namespace opdock::cli
