// A tool as one table: its texts, a row for each command, and its options. Help and the parsing of a command line are
// derived from it.
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
    std::string version;  // output of --version; "" if the tool handles that option itself
    const char *about;    // paragraphs: the tool's purpose
    const char *examples; // including exit codes
    // Paragraphs below the commands. One that begins with "A FILTER is" is also shown in the help of commands whose
    // usage has FILTER.
    const char *notes = "";
};

// The positional words after the name of a command.
struct Words {
    size_t least = 0;
    size_t most = 0;
    const char *what = "options only"; // "the NAME of the key"
    bool are_paths = false;            // made absolute
};

struct CommandText {
    const char *name;  // "": the command without a name
    const char *usage; // one line per way to call it; a line that begins with a blank continues the previous one
    const char *explanation;
    Words words;
    std::vector<const char *> options; // empty for a tool with one command: all options
    // Required options, and their name in the message.
    std::vector<const char *> needed = {};
    const char *needed_text = "";
    const char *where = nullptr; // other options "have no meaning WHERE"; null: "with NAME"
};

template<class Request>
struct Command : CommandText {
    int (*run)(const Request &) = nullptr; // prints, and returns the exit code
    // `check` validates the request once all required options are present; `read` runs before that, as soon as there
    // are values. Both throw UsageError.
    void (*check)(const CommandLine &line, Request &request) = nullptr;
    void (*read)(const CommandLine &line, Request &request) = nullptr;
};

// The help of a tool, or of the command alone that the first of `words` names. Throws UsageError, with near misses, for
// an unknown command.
std::string help_of(const ToolText &tool, const std::vector<CommandText> &commands, const CommandLine &line,
                    const std::vector<std::string> &words = {});

// Parses the command line and stores its values. Returns the index of the command, or commands.size() and in *answer
// the requested text: help or the version. Throws UsageError.
size_t read_command_line(const ToolText &tool, const std::vector<CommandText> &commands,
                         const std::vector<std::string> &arguments, CommandLine &line, std::string *answer);

// Throws UsageError if an option that the command requires is missing.
void require_needed(const CommandText &command, const CommandLine &line);

template<class Request>
struct Tool {
    ToolText text;
    CommandLine (*describe_options)(Request &);
    std::vector<Command<Request>> commands;

    // A parsed command line.
    struct Parsed {
        Request request = {};
        const Command<Request> *command = nullptr; // null: print `text`
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

    // Runs the command. `unnamed` is run for the row without a name.
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
