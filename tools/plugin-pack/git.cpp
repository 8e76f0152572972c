#include "git.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {
namespace {

// Hooks are programs named by a repository's configuration. Settings for modes, links and case could hide changes. For
// submodules only the commit counts: to look for changes in them git would run their filters.
const std::vector<std::string> settings = [] {
    std::vector<std::string> arguments;
    for (const char *setting : {"core.hooksPath=/dev/null",
                                "core.fsmonitor=false",
                                "core.untrackedCache=false",
                                "core.splitIndex=false",
                                "core.excludesFile=/dev/null",
                                "core.fileMode=true",
                                "core.symlinks=true",
                                "core.ignoreCase=false",
                                "core.safecrlf=false",
                                "core.precomposeUnicode=false",
                                "core.quotePath=true",
                                "color.ui=false",
                                "gc.auto=0",
                                "diff.suppressBlankEmpty=false",
                                "diff.noprefix=false",
                                "diff.mnemonicPrefix=false",
                                "diff.orderFile=/dev/null",
                                "diff.ignoreSubmodules=dirty",
                                "apply.whitespace=nowarn",
                                "apply.ignoreWhitespace=no",
                                "advice.addEmbeddedRepo=false",
                                "advice.updateSparsePath=false"}) {
        arguments.insert(arguments.end(), {"-c", setting});
    }
    return arguments;
}();

// A user's own settings would turn the same files into different bytes on another machine.
const std::vector<std::string> settings_of_the_tree = {"-c", "core.autocrlf=false",          "-c", "core.eol=lf",
                                                       "-c", "core.attributesFile=/dev/null"};

// The other variables that a user sets for git refer to the repository of the working directory.
bool is_kept(std::string_view variable, const GitPlace &place) {
    return !variable.starts_with("GIT_") || (variable.starts_with("GIT_CONFIG_") && !place.has_own_settings);
}

std::string setting_variable(size_t index) {
    return "OPDOCK_GIT_SETTING_" + std::to_string(index);
}

// The environment of git, as "NAME=VALUE".
std::vector<std::string> environment_of(const GitPlace &place) {
    std::map<std::string, std::string> variables;
    for (const std::string &text : cli::own_environment()) {
        const size_t equals = text.find('=');
        if (equals != std::string::npos && is_kept(text.substr(0, equals), place)) {
            variables.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    for (const auto &[name, value] : std::initializer_list<std::pair<const char *, const char *>>{
             {"LC_ALL", "C"},
             {"GIT_ATTR_NOSYSTEM", "1"},
             {"GIT_NO_REPLACE_OBJECTS", "1"},
             {"GIT_OPTIONAL_LOCKS", "0"},
             {"GIT_TERMINAL_PROMPT", "0"},
             {"GIT_NO_LAZY_FETCH", "1"}, // no network access
             {"GIT_ALLOW_PROTOCOL", ""}, // the same for git before 2.45
             {"GIT_LITERAL_PATHSPECS", "1"}}) {
        variables[name] = value;
    }
    if (place.has_own_settings) {
        variables["GIT_CONFIG_GLOBAL"] = "/dev/null";
        variables["GIT_CONFIG_NOSYSTEM"] = "1";
    }
    for (size_t i = 0; i < place.settings.size(); ++i) {
        variables[setting_variable(i)] = place.settings[i].second;
    }
    for (const auto &[name, value] : place.variables) {
        variables[name] = value;
    }
    std::vector<std::string> environment;
    environment.reserve(variables.size());
    for (const auto &[name, value] : variables) {
        environment.push_back(name);
        environment.back().append("=").append(value);
    }
    return environment;
}

// The settings, followed by `arguments`.
std::vector<std::string> all_arguments(const GitPlace &place, const std::vector<std::string> &arguments) {
    std::vector<std::string> all = {"git"};
    all.insert(all.end(), settings.begin(), settings.end());
    if (place.conversion == Conversion::of_the_tree) {
        all.insert(all.end(), settings_of_the_tree.begin(), settings_of_the_tree.end());
    }
    for (size_t i = 0; i < place.settings.size(); ++i) { // -c would end a name at its first '='
        all.push_back("--config-env=" + place.settings[i].first + "=" + setting_variable(i));
    }
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
}

std::string first_words(const std::vector<std::string> &arguments) {
    std::string text = "git";
    for (const std::string &argument : arguments) {
        if (argument.starts_with('-')) {
            break;
        }
        text += " " + argument;
    }
    return text;
}

std::vector<std::string> lines_of(const std::string &text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        if (!line.empty() && !line.starts_with("hint: ")) {
            lines.push_back(std::move(line));
        }
    }
    return lines;
}

// Only for a run that fails because of the repository's owner.
void explain_owner(const GitPlace &place, const std::string &err) {
    if (err.find("dubious ownership") != std::string::npos || err.find("unsafe repository") != std::string::npos) {
        throw cli::Failure(place.directory +
                           ": the repository belongs to another user, so git does not open it; if you trust it, run: "
                           "git config --global --add safe.directory " +
                           place.directory);
    }
}

} // namespace

GitRun run_git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input) {
    if (!std::filesystem::is_directory(place.directory)) {
        throw cli::Failure(place.directory + ": there is no such folder");
    }
    std::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c): a git that ends early says why on its stderr
    GitRun run;
    try {
        run = cli::run_program(
            {all_arguments(place, arguments), environment_of(place), place.directory, place.most_output}, input);
    } catch (const std::system_error &error) {
        throw cli::Failure(error.code() == std::errc::no_such_file_or_directory
                               ? "plugin-pack needs the program 'git', which is not on the PATH"
                               : std::string("cannot run git: ") + error.what());
    }
    if (run.out.size() > place.most_output) {
        throw TooMuchOutput(first_words(arguments) + " printed more than " + std::to_string(place.most_output) +
                            " bytes");
    }
    return run;
}

std::string words_of(const GitRun &run) {
    std::vector<std::string> lines = lines_of(run.err);
    const auto is_reason = [](const std::string &line) {
        return line.starts_with("fatal: ") || line.starts_with("error: ");
    };
    const auto reason = std::find_if(lines.begin(), lines.end(), is_reason);
    if (reason != lines.end()) {
        std::rotate(lines.begin(), reason, reason + 1);
        lines.front().erase(0, std::string_view("fatal: ").size());
    }
    std::string text;
    for (const std::string &line : lines) {
        text += (text.empty() ? "" : "\n  ") + line;
    }
    return text.empty() ? "exit code " + std::to_string(run.code) : text;
}

std::string git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input) {
    GitRun run = run_git(place, arguments, input);
    if (run.code != 0) {
        explain_owner(place, run.err);
        throw cli::Failure(first_words(arguments) + " in " + place.directory + " failed: " + words_of(run));
    }
    return std::move(run.out);
}

std::string git_line(const GitPlace &place, const std::vector<std::string> &arguments) {
    std::string text = git(place, arguments);
    while (text.ends_with('\n')) {
        text.pop_back();
    }
    return text;
}

std::string commit_id(const std::string &repository, const std::string &commit) {
    const GitRun run =
        run_git({repository}, {"rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{commit}"});
    return run.code == 0 ? run.out.substr(0, run.out.find('\n')) : "";
}

std::vector<std::pair<std::string, std::string>>
attributes_of(const GitPlace &place, const std::vector<std::string> &arguments, const std::vector<std::string> &paths) {
    std::vector<std::string> all = {"check-attr", "-z", "--stdin"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const std::vector<std::string> parts = split_at_zeros(git(place, all, joined_with_zeros(paths)));
    std::vector<std::pair<std::string, std::string>> found;
    for (size_t i = 0; i + 2 < parts.size(); i += 3) { // path, attribute, value
        if (parts[i + 2] != "unspecified") {
            found.emplace_back(parts[i], parts[i + 2]);
        }
    }
    return found;
}

std::vector<std::string> split_at_zeros(std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\0'), text.size());
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

std::string joined_with_zeros(const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts) {
        text += part;
        text += '\0';
    }
    return text;
}

} // namespace opdock::plugin_pack
