#include "cli/format.hpp"

#include "cli/exit.hpp"

namespace opdock::cli {

namespace po = boost::program_options;

namespace {

bool has_csv(const po::options_description &options) {
    return options.find_nothrow("csv", false) != nullptr;
}

// All formats as text; `table` describes the first one.
std::string formats(const po::options_description &options, const std::string &table) {
    return table + (has_csv(options) ? ", csv or json" : " or json");
}

} // namespace

void add_format(po::options_description &options, const std::string &keys, const std::string &commands) {
    const std::string format = commands + formats(options, "table (the default)");
    const std::string json = commands + "short for --format json; " + keys + " lists the keys";
    options.add_options()("format", po::value<std::string>()->value_name("FORMAT"), format.c_str());
    options.add_options()("json", json.c_str());
}

void read_format(const po::options_description &options, po::variables_map &values) {
    if (!values.contains("format")) {
        return;
    }
    const std::string format = values["format"].as<std::string>();
    if (format != "table" && format != "json" && !(format == "csv" && has_csv(options))) {
        throw UsageError("--format '" + format + "': expected " + formats(options, "table"));
    }
    if (format != "json" && values.contains("json")) {
        throw UsageError("--json and --format " + format + " contradict each other");
    }
    if (format == "table") {
        values.erase("format");
    }
    if (format == "json") { // boost's value of an option without one
        values.emplace("json", po::variable_value(std::string(), false));
    }
}

std::string as_given(const po::variables_map &values, const std::string &option) {
    const bool is_format = option == "format" || (option == "json" && values.contains("format"));
    return "--" + (is_format ? "format " + values["format"].as<std::string>() : option);
}

bool asks_for_json(const std::vector<std::string> &arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
        const bool has_value = arguments[i] == "--format" && i + 1 < arguments.size();
        if (arguments[i] == "--json" || arguments[i] == "--format=json" || (has_value && arguments[i + 1] == "json")) {
            return true;
        }
    }
    return false;
}

} // namespace opdock::cli
