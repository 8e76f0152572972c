// A tool as one table: its texts, a row for each command, and its options. Help and the reading of a command line
// follow from it.
#pragma once

#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/exit.hpp"

namespace opdock::cli {

// "plugin-run (opdock) 1.0.0, ABI 1.0"
std::string version_with_abi(const std::string &tool);

struct ToolText {
    const char *name;
    std::string version;  // the line of --version; "" where that is an option like others
    const char *about;    // paragraphs: what it does
    const char *examples; // with exit codes
    // Paragraphs below the commands. One that begins "A FILTER is" is also in the help of commands whose usage has
    // FILTER.
    const char *notes = "";
};

// What stands behind the name of a command.
struct Words {
    size_t least = 0;
    size_t most = 0;
    const char *what = "options only"; // "the NAME of the key"
    bool are_paths = false;            // made absolute
};

struct CommandText {
    const char *name;  // "": what a tool does without such a word
    const char *usage; // a line for each way to call it; one that begins with a blank continues the line before
    const char *explanation;
    Words words;
    std::vector<const char *> options; // of a tool with one command: none, which stands for all
    // Options that must be given, and how the message calls them.
    std::vector<const char *> needed = {};
    const char *needed_text = "";
    const char *where = nullptr; // an option that it does not take "has no meaning WHERE"; null: "with NAME"
};

template<class Request>
struct Command : CommandText {
    int (*run)(const Request &) = nullptr; // prints, and returns the exit code
    // What there is to say of the request when all that is needed is there, and of values as soon as they are. Both
    // throw UsageError.
    void (*check)(const CommandLine &line, Request &request) = nullptr;
    void (*read)(const CommandLine &line, Request &request) = nullptr;
};

// The help of a tool; where the first of `words` is a command, of that alone. Throws UsageError for a word that should
// be a command, with near misses.
std::string help_of(const ToolText &tool, const std::vector<CommandText> &commands, const CommandLine &line,
                    const std::vector<std::string> &words = {});

// Reads the command line, and puts its values where they belong. Returns the index of its command, or commands.size()
// and in *answer the text that it asks for: help or the version. Throws UsageError.
size_t read_command_line(const ToolText &tool, const std::vector<CommandText> &commands,
                         const std::vector<std::string> &arguments, CommandLine &line, std::string *answer);

// Throws UsageError where an option is missing that the command needs.
void require_needed(const CommandText &command, const CommandLine &line);

template<class Request>
struct Tool {
    ToolText text;
    CommandLine (*describe_options)(Request &);
    std::vector<Command<Request>> commands;

    // What a command line asks for.
    struct Parsed {
        Request request = {};
        const Command<Request> *command = nullptr; // null: for the text
        std::string text = {};
    };

    // `arguments` without the program's name. Throws UsageError.
    Parsed read(const std::vector<std::string> &arguments) const {
        Parsed parsed;
        CommandLine line = describe_options(parsed.request);
        const size_t index = read_command_line(text, texts(), arguments, line, &parsed.text);
        if (index < commands.size()) {
            parsed.command = &commands[index];
            if (parsed.command->read != nullptr) {
                parsed.command->read(line, parsed.request);
            }
            require_needed(*parsed.command, line);
            if (parsed.command->check != nullptr) {
                parsed.command->check(line, parsed.request);
            }
        }
        return parsed;
    }

    // Does what they ask for. `unnamed` is what the row without a name runs.
    int run(const std::vector<std::string> &arguments, int (*unnamed)(const Request &) = nullptr) const {
        const Parsed parsed = read(arguments);
        if (parsed.command == nullptr) {
            std::cout << parsed.text;
            return exit_fine;
        }
        return (parsed.command->run != nullptr ? parsed.command->run : unnamed)(parsed.request);
    }

    std::string help(const std::vector<std::string> &words = {}) const {
        Request none;
        return help_of(text, texts(), describe_options(none), words);
    }

  private:
    std::vector<CommandText> texts() const { return {commands.begin(), commands.end()}; }
};

} // namespace opdock::cli
