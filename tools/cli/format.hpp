// The option --format of all tools, and --json, which is short for --format json.
#pragma once

#include <string>
#include <vector>

#include <boost/program_options.hpp>

namespace opdock::cli {

// Adds both options. The formats are table, json and, where `options` have --csv already, csv. `keys` is the document
// that has the keys of the JSON; `commands` begins both texts, such as "verify, digest: ", where only some commands
// print JSON.
void add_format(boost::program_options::options_description &options, const std::string &keys,
                const std::string &commands = "");

// For parse_arguments(): --format json counts as --json as well, --format table as nothing. Throws UsageError for a
// format that the tool does not have, and for one beside --json that is another.
void read_format(const boost::program_options::options_description &options,
                 boost::program_options::variables_map &values);

// An option of `values` as it was given: "--out", and for "json" --json or "--format json".
std::string as_given(const boost::program_options::variables_map &values, const std::string &option);

// True where the command line asks for JSON, also when it is wrong otherwise.
bool asks_for_json(const std::vector<std::string> &arguments);

} // namespace opdock::cli
