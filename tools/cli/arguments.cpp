#include "cli/arguments.hpp"

#include <filesystem>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"

namespace opdock::cli {

namespace po = boost::program_options;

po::variables_map parse_arguments(const std::vector<std::string> &arguments, const po::options_description &options,
                                  const po::positional_options_description &positional) {
    po::variables_map values;
    try {
        const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
        po::store(po::command_line_parser(arguments).options(options).positional(positional).style(style).run(),
                  values);
        po::notify(values);
    } catch (const po::unknown_option &error) {
        std::vector<std::string> known;
        for (const auto &option : options.options()) {
            known.push_back("--" + option->long_name());
        }
        const std::string name = error.get_option_name();
        throw UsageError("unknown option '" + name + "'" + did_you_mean(name, known));
    } catch (const po::too_many_positional_options_error &) {
        throw UsageError("unexpected argument; options start with '--'");
    } catch (const po::error &error) {
        throw UsageError(error.what());
    }
    return values;
}

std::string absolute_path(const std::string &path) {
    if (path.empty()) {
        throw UsageError("a path is empty");
    }
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    if (error) {
        throw UsageError("'" + path + "': the working directory cannot be told (" + error.message() +
                         "); expected an absolute path");
    }
    return absolute.lexically_normal().string();
}

} // namespace opdock::cli
