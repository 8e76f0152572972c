#include "cli/tool.hpp"

#include <algorithm>
#include <sstream>

#include "cli/fill.hpp"
#include "cli/suggest.hpp"
#include "opdock/abi/version.h"

namespace opdock::cli {

namespace po = boost::program_options;

namespace {

constexpr unsigned width = 80;

// The lines of `text` that begin with two or more blanks and `entry`, with the deeper lines below each of them.
std::string entries_of(const std::string &text, const std::string &entry) {
    std::string kept;
    size_t indent = std::string::npos; // indentation of the current entry
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

// The clauses of an option's text that apply to `command`, separated by "; ". A clause for certain commands only begins
// with "COMMAND[, COMMAND]: ", which is removed.
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

// The paragraphs of `text` that define a word of `usage`: "A FILTER is ...", each after an empty line.
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

// Appends "Usage: TOOL NAME ..." for each way to call `command` to `usage`.
void add_usage(std::string &usage, const ToolText &tool, const CommandText &command) {
    const std::string tool_name = std::string(tool.name) + " ";
    const std::string blanks(std::string("Usage: ").size(), ' ');
    std::istringstream lines(*command.usage == '\0' ? "\n" : command.usage);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(' ')) {
            line = blanks + std::string(tool_name.size(), ' ') + line.substr(line.find_first_not_of(' '));
        } else {
            line = (usage.empty() ? "Usage: " : blanks) + tool_name + command.name +
                   (*command.name == '\0' || line.empty() ? "" : " ") + line;
        }
        usage += line + "\n";
    }
}

// "  NAME     explanation", continued on further lines.
std::string explained(const CommandText &command) {
    constexpr size_t indent = 11;
    std::string name = std::string("  ") + command.name;
    name = name.size() + 1 < indent ? name + std::string(indent - name.size(), ' ')
                                    : name + "\n" + std::string(indent, ' ');
    std::vector<std::string> words;
    std::istringstream text(command.explanation);
    for (std::string word; text >> word;) {
        words.push_back(word + " ");
    }
    return name + fill(words, indent, indent, width) + "\n";
}

std::string help_of_command(const ToolText &tool, const CommandText &command, const po::options_description &options) {
    std::string usage;
    add_usage(usage, tool, command);
    po::options_description own("Options", width, width * 7 / 10);
    for (const auto &option : options.options()) {
        const std::string &name = option->long_name();
        if (name == "help") {
            own.add(option);
        } else if (takes(command.options, name)) {
            const std::string value = option->format_parameter();
            own.add_options()(name.c_str(),
                              value.empty()
                                  ? new po::untyped_value(true)
                                  : static_cast<po::value_semantic *>(po::value<std::string>()->value_name(value)),
                              clauses_of(option->description(), command.name).c_str());
        }
    }
    const std::string examples = entries_of(tool.examples, std::string(tool.name) + " " + command.name);
    std::ostringstream text;
    text << usage << '\n'
         << explained(command) << words_explained(std::string("\n") + tool.notes, usage) << '\n'
         << own << (examples.empty() ? "" : "\nExamples:\n" + examples) << "\n'" << tool.name
         << " --help' lists all commands and exit codes.\n";
    return text.str();
}

// The index of the command named by the first of `words`, or of the command without a name.
size_t find_command(const std::vector<CommandText> &commands, const std::vector<std::string> &words) {
    std::vector<std::string> names;
    size_t unnamed = commands.size();
    for (size_t i = 0; i < commands.size(); ++i) {
        names.emplace_back(commands[i].name);
        if (names.back().empty()) {
            unnamed = i;
        } else if (!words.empty() && words.front() == names.back()) {
            return i;
        }
    }
    if (unnamed < commands.size()) {
        return unnamed;
    }
    if (!words.empty()) {
        throw UsageError("unknown command '" + words.front() + "'" + did_you_mean(words.front(), names));
    }
    std::string all;
    for (const std::string &name : names) {
        all += (all.empty() ? "" : name == names.back() ? " or " : ", ") + name;
    }
    throw UsageError("expected a command: " + all);
}

} // namespace

std::string version_with_abi(const std::string &tool) {
    return tool + " (opdock) " OPDOCK_TOOL_VERSION ", ABI " + std::to_string(OPDOCK_ABI_MAJOR) + "." +
           std::to_string(OPDOCK_ABI_MINOR);
}

std::string help_of(const ToolText &tool, const std::vector<CommandText> &commands, const CommandLine &line,
                    const std::vector<std::string> &words) {
    if (!words.empty()) {
        if (const CommandText &command = commands[find_command(commands, words)]; *command.name != '\0') {
            return help_of_command(tool, command, line.description());
        }
    }
    std::string usage;
    std::string rows;
    for (const CommandText &command : commands) {
        add_usage(usage, tool, command);
        rows += *command.name == '\0' ? "" : explained(command);
    }
    std::ostringstream text;
    text << usage << '\n'
         << tool.about << '\n'
         << (rows.empty() ? "" : "\n") << rows << tool.notes << '\n'
         << line.description() << '\n'
         << tool.examples << '\n';
    return text.str();
}

size_t read_command_line(const ToolText &tool, const std::vector<CommandText> &commands,
                         const std::vector<std::string> &arguments, CommandLine &line, std::string *answer) {
    const Asked asked = line.parse(arguments);
    std::vector<std::string> words = line.words();
    const bool asks_for_version = asked == Asked::version && !tool.version.empty();
    if (asked == Asked::help || asks_for_version) {
        *answer = asks_for_version ? tool.version + "\n" : help_of(tool, commands, line, words);
        return commands.size();
    }
    const size_t index = find_command(commands, words);
    const CommandText &command = commands[index];
    const bool is_named = *command.name != '\0';
    const std::string name = command.name;
    if (commands.size() > 1) {
        line.refuse_others(command.where != nullptr ? command.where : "with " + name, command.options, is_named);
    }
    words.erase(words.begin(), words.begin() + (is_named ? 1 : 0));
    if (words.size() < command.words.least || words.size() > command.words.most) {
        throw UsageError(name + " expects " + command.words.what);
    }
    if (command.words.are_paths) {
        std::transform(words.begin(), words.end(), words.begin(), absolute_path);
    }
    line.store(words);
    return index;
}

void require_needed(const CommandText &command, const CommandLine &line) {
    for (const char *option : command.needed) {
        if (!line.given(option)) {
            throw UsageError(std::string(command.name) + " expects " + command.needed_text);
        }
    }
}

} // namespace opdock::cli
