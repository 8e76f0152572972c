#include "git.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "files/spawn.hpp"

namespace opdock::plugin_pack {
namespace {

// Hooks are programs that a repository's configuration names. With the settings of modes, links and case changes would
// not be seen. Of submodules the commit counts: to look for changes in them git would run their filters.
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

// With those of a user the same files would be other bytes on another machine.
const std::vector<std::string> settings_of_the_tree = {"-c", "core.autocrlf=false",          "-c", "core.eol=lf",
                                                       "-c", "core.attributesFile=/dev/null"};

// The rest of what a user sets for git is about a repository that they are in.
bool is_kept(std::string_view variable, const GitPlace &place) {
    return !variable.starts_with("GIT_") || (variable.starts_with("GIT_CONFIG_") && !place.has_own_settings);
}

std::string setting_variable(size_t index) {
    return "OPDOCK_GIT_SETTING_" + std::to_string(index);
}

// "NAME=VALUE", each.
std::vector<std::string> environment_of(const GitPlace &place) {
    std::map<std::string, std::string> variables;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const size_t equals = text.find('=');
        if (equals != std::string_view::npos && is_kept(text.substr(0, equals), place)) {
            variables.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    for (const auto &[name, value] : std::initializer_list<std::pair<const char *, const char *>>{
             {"LC_ALL", "C"},
             {"GIT_ATTR_NOSYSTEM", "1"},
             {"GIT_NO_REPLACE_OBJECTS", "1"},
             {"GIT_OPTIONAL_LOCKS", "0"},
             {"GIT_TERMINAL_PROMPT", "0"},
             {"GIT_NO_LAZY_FETCH", "1"}, // nothing comes over a network
             {"GIT_ALLOW_PROTOCOL", ""}, // the same to a git before 2.45
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

// The settings, and then these.
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

std::vector<char *> pointers_to(std::vector<std::string> &texts) {
    std::vector<char *> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string &text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

[[noreturn]] void fail(const std::string &what, int error) {
    throw cli::Failure("git cannot be run: " + what + ": " + std::generic_category().message(error));
}

class Pipe {
  public:
    Pipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
            fail("pipe", errno);
        }
    }
    ~Pipe() {
        close(0);
        close(1);
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;

    int end(size_t which) const { return ends_.at(which); } // 0 is read from, 1 written to
    void close(size_t which) {
        if (ends_.at(which) >= 0) {
            ::close(ends_.at(which));
            ends_.at(which) = -1;
        }
    }

  private:
    std::array<int, 2> ends_ = {-1, -1};
};

pid_t start(const GitPlace &place, std::vector<std::string> arguments, const Pipe &in, const Pipe &out,
            const Pipe &err) {
    std::vector<std::string> environment = environment_of(place);
    core::Spawn spawn;
    spawn.work_in(place.directory.c_str());
    spawn.give(in.end(0), STDIN_FILENO);
    spawn.give(out.end(1), STDOUT_FILENO);
    spawn.give(err.end(1), STDERR_FILENO);
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    spawn.reset_signals(pipe);
    pid_t process = -1;
    const int error = spawn.run(pointers_to(arguments).data(), pointers_to(environment).data(), &process);
    if (error == ENOENT) {
        throw cli::Failure("there is no program 'git' on the PATH, which plugin-pack works with");
    }
    if (error != 0) {
        fail(place.directory, error);
    }
    return process;
}

// Whatever there is to read; the pipe is closed at its end.
void take(Pipe &pipe, std::string &text) {
    std::array<char, 65536> bytes; // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    const ssize_t count = ::read(pipe.end(0), bytes.data(), bytes.size());
    if (count > 0) {
        text.append(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
        pipe.close(0);
    }
}

// As much as it takes; the pipe is closed when all is given, or nobody reads.
void give(Pipe &pipe, std::string_view &text) {
    const ssize_t count = ::write(pipe.end(1), text.data(), std::min<size_t>(text.size(), 65536));
    if (count > 0) {
        text.remove_prefix(static_cast<size_t>(count));
    }
    if (text.empty() || (count < 0 && errno != EINTR && errno != EAGAIN)) {
        pipe.close(1);
    }
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

// Not of a run that fails for another reason.
void explain_owner(const GitPlace &place, const std::string &err) {
    if (err.find("dubious ownership") != std::string::npos || err.find("unsafe repository") != std::string::npos) {
        throw cli::Failure(place.directory +
                           ": the repository belongs to another user, and git does not open it; if "
                           "you trust it: git config --global --add safe.directory " +
                           place.directory);
    }
}

} // namespace

GitRun run_git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input) {
    if (!std::filesystem::is_directory(place.directory)) {
        throw cli::Failure(place.directory + ": there is no such folder");
    }
    std::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c): a git that ends early says why on its stderr
    Pipe in, out, err;
    ::fcntl(in.end(1), F_SETFL, O_NONBLOCK);
    const pid_t process = start(place, all_arguments(place, arguments), in, out, err);
    in.close(0);
    out.close(1);
    err.close(1);
    GitRun run;
    if (input.empty()) {
        in.close(1);
    }
    while (out.end(0) >= 0 || err.end(0) >= 0) { // negative ones are not looked at
        std::array<pollfd, 3> ends = {pollfd{in.end(1), POLLOUT, 0}, pollfd{out.end(0), POLLIN, 0},
                                      pollfd{err.end(0), POLLIN, 0}};
        if (::poll(ends.data(), ends.size(), -1) < 0) {
            if (errno != EINTR) {
                fail("poll", errno);
            }
            continue;
        }
        if (ends[0].revents != 0) {
            give(in, input);
        }
        if (ends[1].revents != 0) {
            take(out, run.out);
        }
        if (ends[2].revents != 0) {
            take(err, run.err);
        }
        if (run.out.size() > place.most_output) {
            ::kill(process, SIGKILL);
            out.close(0);
        }
    }
    in.close(1);
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    if (run.out.size() > place.most_output) {
        throw TooMuchOutput(first_words(arguments) + " printed more than " + std::to_string(place.most_output) +
                            " bytes");
    }
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
