#include "cli/arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>
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
        throw UsageError(core::quote(word) + " has a line feed in it; expected words and names of one line");
    }
}

// Words for one thing, in these tools and in others: who knows one of them looks for it everywhere.
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

// "; did you mean '--in'?" for a word that means the same in another tool; "" when there is none.
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

// That is no option and no value behind one.
std::string first_word(const std::vector<std::string> &arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
        const bool is_behind_option = i > 0 && arguments[i - 1].starts_with('-');
        if (!arguments[i].starts_with('-') && !is_behind_option) {
            return arguments[i];
        }
    }
    return "";
}

// The names that values without an option go by: no options, though boost has them among these.
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

// `shown`: as the user wrote it, with "=VALUE" where that stands there.
[[noreturn]] void refuse_unknown(const std::string &shown, const po::options_description &options,
                                 const std::vector<std::string> &positional) {
    std::vector<std::string> known;
    for (const auto &option : options.options()) {
        if (const std::string name = "--" + option->long_name(); !is_one_of(positional, name)) {
            known.push_back(name);
        }
    }
    const std::string name = core::visible_line(shown.substr(0, shown.find('=')));
    std::string hint = same_elsewhere(name, known); // more likely than a slip
    if (hint.empty()) {
        hint = did_you_mean(name, known);
    }
    if (hint.empty() && !near_misses(name, positional).empty()) {
        hint = "; write its value alone, without '" + name + "'";
    }
    throw UsageError("unknown option '" + name + "'" + hint);
}

// The lines of `text` that begin with `entry` and at least two blanks, and those below each that are indented deeper.
std::string entries_of(const std::string &text, const std::string &entry) {
    std::string kept;
    size_t indent = std::string::npos; // of the entry that goes on
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t blanks = line.find_first_not_of(' ');
        if (blanks != std::string::npos && blanks >= 2 &&
            (line + " ").compare(blanks, entry.size() + 1, entry + " ") == 0) {
            indent = blanks;
        } else if (indent == std::string::npos || blanks == std::string::npos || blanks <= indent) {
            indent = std::string::npos;
            continue;
        }
        kept += line + "\n";
    }
    return kept;
}

// The clauses of an option's text that are about `command`. They end with "; ". A clause about some commands alone
// begins with "COMMAND[, COMMAND]: ", which is left out.
std::string clauses_of(const std::string &text, const std::string &command) {
    std::string kept;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find("; ", begin), text.size());
        std::string clause = text.substr(begin, end - begin);
        begin = end + 2;
        const size_t colon = clause.find(": ");
        std::string commands = ", " + clause.substr(0, colon) + ", ";
        const bool is_of_it = commands.find(", " + command + ", ") != std::string::npos;
        for (size_t comma = commands.find(", "); comma != std::string::npos; comma = commands.find(", ")) {
            commands.erase(comma, 2);
        }
        const bool is_of_some = colon != std::string::npos &&
                                commands.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos;
        if (is_of_some && !is_of_it) {
            continue;
        }
        clause.erase(0, is_of_some ? colon + 2 : 0);
        kept += (kept.empty() ? "" : "; ") + clause;
    }
    return kept;
}

// The paragraphs of `text` that say what a word of `usage` is: "A FILTER is ...", each after an empty line.
std::string words_explained(const std::string &text, const std::string &usage) {
    std::string found;
    for (size_t at = text.find("\n\nA "); at != std::string::npos; at = text.find("\n\nA ", at + 1)) {
        const size_t begin = at + 4;
        const std::string word = text.substr(begin, text.find(' ', begin) - begin);
        if (usage.find(word) != std::string::npos) {
            found += text.substr(at + 1, text.find("\n\n", begin) - at);
        }
    }
    return found;
}

} // namespace

std::string help_of(const std::string &introduction, const po::options_description &options,
                    const std::string &examples) {
    std::ostringstream text;
    text << introduction << '\n' << options << examples;
    return text.str();
}

std::string help_of(const std::string &introduction, const po::options_description &options,
                    const std::string &examples, const std::string &command,
                    const std::vector<const char *> &options_of_command) {
    const std::string head = "Usage: ";
    const std::string tool = introduction.substr(head.size(), introduction.find(' ', head.size()) - head.size());
    const size_t end_of_usage = introduction.find("\n\n");
    const std::string call = tool + " " + command;
    std::string usage = std::string(head.size(), ' ') + introduction.substr(head.size(), end_of_usage - head.size());
    usage = entries_of(usage, call);
    usage.replace(0, head.size(), head);
    constexpr unsigned width = 80;
    po::options_description own("Options", width, width * 7 / 10);
    for (const auto &option : options.options()) {
        const std::string &name = option->long_name();
        if (name == "help") {
            own.add(option);
        } else if (takes(options_of_command, name)) {
            const std::string value = option->format_parameter();
            own.add_options()(name.c_str(),
                              value.empty()
                                  ? new po::untyped_value(true)
                                  : static_cast<po::value_semantic *>(po::value<std::string>()->value_name(value)),
                              clauses_of(option->description(), command).c_str());
        }
    }
    const std::string own_examples = entries_of(examples, call);
    const std::string own_introduction = usage + "\n" + entries_of(introduction.substr(end_of_usage), command);
    return help_of(own_introduction + words_explained(introduction, usage), own,
                   (own_examples.empty() ? "" : "\nExamples:\n" + own_examples) + "\n'" + tool +
                       " --help' tells of all commands and of exit codes.\n");
}

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
        throw UsageError("'" + path + "': the working directory cannot be told (" + error.message() +
                         "); expected an absolute path");
    }
    std::string normal = absolute.lexically_normal().string();
    refuse_line_feed(normal);
    return normal;
}

std::string op_called(const std::string &name) {
    return std::string(core::standard_name(name));
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
