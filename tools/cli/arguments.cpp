#include "cli/arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/suggest.hpp"
#include "signature/other_names.hpp"
#include "text/spelling.hpp"

namespace opdock::cli {

namespace po = boost::program_options;

namespace {

void refuse_line_feed(const std::string &word) {
    if (word.find('\n') != std::string::npos) {
        throw UsageError(core::quote(word) + " contains a line feed; expected one-line words and names");
    }
}

// Synonyms, in these tools and in others: a user who knows one of them looks for it everywhere.
constexpr std::array<std::string_view, 8> alike[] = {
    {"--in", "--input", "--inputs", "--shape", "--shapes"},
    {"--shapes", "--from"},
    {"--in", "--shape", "--from"},
    {"--out", "--csv"},
    {"--output", "--outputs", "--out"},
    {"--time", "--budget", "--seconds", "--timeout", "--config-time"},
    {"--rounds", "--repeat", "--iterations", "--count"},
    {"--modules", "--module", "--plugins", "--plugin-path"},
    {"--impl", "--implementation", "--backend"},
    {"--dtype", "--dtypes", "--type"},
    {"--device", "--devices", "--gpu", "--device-type", "--model"},
    {"--pub", "--public-key", "--cert"},
    {"--key", "--private-key", "--secret-key"},
    {"--dry-run", "--pretend", "--simulate"},
    {"--force", "--overwrite", "--yes"},
    {"--verbose", "--details", "--long"},
    {"--format", "--output-format"},
};

// "; did you mean '--in'?" for a synonym that another tool uses; "" if there is none.
std::string same_elsewhere(const std::string &name, const std::vector<std::string> &known) {
    for (const auto &words : alike) {
        if (std::find(words.begin(), words.end(), name) != words.end()) {
            for (const std::string_view word : words) {
                if (!word.empty() && std::find(known.begin(), known.end(), word) != known.end()) {
                    return "; did you mean '" + std::string(word) + "'?";
                }
            }
        }
    }
    return "";
}

// Returns the first word that is neither an option nor follows one; "" if there is none.
std::string first_word(const std::vector<std::string> &arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
        const bool is_behind_option = i > 0 && arguments[i - 1].starts_with('-');
        if (!arguments[i].starts_with('-') && !is_behind_option) {
            return arguments[i];
        }
    }
    return "";
}

// The names of positional values. They are no options, although boost lists them as such.
std::vector<std::string> positional_names(const po::positional_options_description &positional) {
    std::vector<std::string> names;
    constexpr unsigned most = 16;
    for (unsigned i = 0; i < std::min(positional.max_total_count(), most); ++i) {
        names.push_back("--" + positional.name_for_position(i));
    }
    return names;
}

bool is_one_of(const std::vector<std::string> &names, const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// `shown`: as the user wrote it, including "=VALUE" if given.
[[noreturn]] void refuse_unknown(const std::string &shown, const po::options_description &options,
                                 const std::vector<std::string> &positional) {
    std::vector<std::string> known;
    for (const auto &option : options.options()) {
        if (const std::string name = "--" + option->long_name(); !is_one_of(positional, name)) {
            known.push_back(name);
        }
    }
    const std::string name = core::visible_line(shown.substr(0, shown.find('=')));
    std::string hint = same_elsewhere(name, known); // more likely than a typing mistake
    if (hint.empty()) {
        hint = did_you_mean(name, known);
    }
    if (hint.empty() && !near_misses(name, positional).empty()) {
        hint = "; write its value alone, without '" + name + "'";
    }
    throw UsageError("unknown option '" + name + "'" + hint);
}

} // namespace

po::variables_map parse_arguments(const std::vector<std::string> &arguments, const po::options_description &options,
                                  const po::positional_options_description &positional, const std::string &prose) {
    po::variables_map values;
    const std::vector<std::string> unnamed = positional_names(positional);
    try {
        const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
        const po::parsed_options parsed =
            po::command_line_parser(arguments).options(options).positional(positional).style(style).run();
        for (const po::option &given : parsed.options) {
            if (given.position_key < 0 && is_one_of(unnamed, "--" + given.string_key)) {
                refuse_unknown("--" + given.string_key, options, unnamed);
            }
            if (prose.empty() || given.string_key != prose) {
                std::for_each(given.value.begin(), given.value.end(), refuse_line_feed);
            }
        }
        po::store(parsed, values);
        po::notify(values);
        read_format(options, values);
    } catch (const po::unknown_option &error) {
        refuse_unknown(error.get_option_name(), options, unnamed);
    } catch (const po::too_many_positional_options_error &) {
        const std::string word = first_word(arguments);
        const bool has_op = options.find_nothrow("op", false) != nullptr;
        throw UsageError("unexpected argument" + (word.empty() ? "" : " '" + core::visible_line(word) + "'") +
                         "; options start with '--'" + (has_op ? ", such as --op OP" : ""));
    } catch (const po::error &error) {
        throw UsageError(core::visible_line(error.what()));
    }
    return values;
}

bool takes(const std::vector<const char *> &options, const std::string &option) {
    const std::string listed = option == "format" ? "json" : option;
    return std::any_of(options.begin(), options.end(), [&](const char *own) { return listed == own; });
}

std::string same_among(const std::vector<const char *> &options, const std::string &option) {
    std::vector<std::string> known;
    known.reserve(options.size());
    for (const char *own : options) {
        known.push_back(std::string("--") + own);
    }
    return same_elsewhere("--" + option, known);
}

std::string absolute_path(const std::string &path) {
    if (path.empty()) {
        throw UsageError("a path is empty");
    }
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    if (error) {
        throw UsageError("'" + path + "': cannot determine the working directory (" + error.message() +
                         "); expected an absolute path");
    }
    std::string normal = absolute.lexically_normal().string();
    refuse_line_feed(normal);
    return normal;
}

std::string op_called(const std::string &name) {
    return std::string(core::standard_name(name));
}

std::string one_op(const std::vector<std::string> &words) {
    if (words.size() > 1) {
        throw UsageError("one op at a time; '" + words[1] + "' is a second op");
    }
    return words.empty() ? "" : op_called(words.front());
}

// boost::lexical_cast takes "-1" for an unsigned number.
uint64_t parse_number(const std::string &text, const std::string &option, uint64_t minimum, uint64_t maximum) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < minimum || value > maximum) {
        throw UsageError(option + " '" + text + "': expected a whole number from " + std::to_string(minimum) + " to " +
                         std::to_string(maximum));
    }
    return value;
}

size_t parse_choice(const std::string &text, const std::string &option, const std::vector<std::string> &values) {
    const auto found = std::find(values.begin(), values.end(), text);
    if (found == values.end()) {
        std::string all = values.front();
        for (size_t i = 1; i < values.size(); ++i) {
            all += (i + 1 < values.size() ? ", " : " or ") + values[i];
        }
        throw UsageError(option + " '" + text + "': expected " + all + did_you_mean(text, values));
    }
    return static_cast<size_t>(found - values.begin());
}

double parse_duration(const std::string &text, const std::string &option) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string unit(end, text.data() + text.size());
    const double factor = unit.empty() || unit == "s" ? 1
                          : unit == "ms"              ? 1e-3
                          : unit == "m"               ? 60
                          : unit == "h"               ? 3600
                                                      : 0;
    const double seconds = value * factor;
    if (error != std::errc() || factor == 0 || !std::isfinite(seconds) || seconds <= 0 || seconds > 1e6) {
        throw UsageError(option + " '" + text + "': expected a time such as 60s, 500ms, 2m or 1h");
    }
    return seconds;
}

} // namespace opdock::cli
