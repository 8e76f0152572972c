#include "git.hpp"

#include <cstdlib>
#include <filesystem>
#include <future>

#include <boost/asio/io_context.hpp>
#include <boost/process.hpp>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {
namespace {

namespace process = boost::process;

// Hooks are programs that a repository's configuration names. With autocrlf the same files would be other bytes on
// another machine, and with the settings of modes, links and case changes would not be seen. Of submodules the commit
// counts: to look for changes in them git would run their filters.
const std::vector<std::string> settings = [] {
    std::vector<std::string> arguments;
    for (const char *setting : {"core.hooksPath=/dev/null",
                                "core.fsmonitor=false",
                                "core.untrackedCache=false",
                                "core.splitIndex=false",
                                "core.autocrlf=false",
                                "core.eol=lf",
                                "core.attributesFile=/dev/null",
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

process::environment environment_of(const GitPlace &place) {
    process::environment environment;
    for (const auto &variable : boost::this_process::environment()) {
        const std::string name = variable.get_name();
        if (!name.starts_with("GIT_")) {
            environment[name] = variable.to_string();
        }
    }
    environment["LC_ALL"] = "C";
    environment["GIT_ATTR_NOSYSTEM"] = "1";
    environment["GIT_NO_REPLACE_OBJECTS"] = "1";
    environment["GIT_OPTIONAL_LOCKS"] = "0";
    environment["GIT_TERMINAL_PROMPT"] = "0";
    environment["GIT_NO_LAZY_FETCH"] = "1"; // nothing comes over a network
    environment["GIT_LITERAL_PATHSPECS"] = "1";
    for (const auto &[name, value] : place.variables) {
        environment[name] = value;
    }
    return environment;
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

} // namespace

GitRun run_git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input) {
    if (!std::filesystem::is_directory(place.directory)) {
        throw cli::Failure(place.directory + ": there is no such folder");
    }
    static const boost::filesystem::path program = [] {
        // Boost.Filesystem asks for the user's locale, which need not be installed. No text here depends on it.
        setenv("LC_ALL", "C", 1); // NOLINT(concurrency-mt-unsafe): there is one thread
        return process::search_path("git");
    }();
    if (program.empty()) {
        throw cli::Failure("there is no program 'git' on the PATH, which plugin-pack works with");
    }
    std::vector<std::string> all = settings;
    all.insert(all.end(), arguments.begin(), arguments.end());
    boost::asio::io_context io;
    std::future<std::string> out;
    std::future<std::string> err;
    process::child child(program, process::args(all), process::start_dir(place.directory), environment_of(place),
                         process::std_in<boost::asio::buffer(input.data(), input.size()), process::std_out> out,
                         process::std_err > err, io);
    io.run();
    child.wait();
    return {child.exit_code(), out.get(), err.get()};
}

std::string git(const GitPlace &place, const std::vector<std::string> &arguments, std::string_view input) {
    GitRun run = run_git(place, arguments, input);
    if (run.code != 0) {
        while (run.err.ends_with('\n')) {
            run.err.pop_back();
        }
        throw cli::Failure(first_words(arguments) + " in " + place.directory +
                           " failed: " + (run.err.empty() ? "exit code " + std::to_string(run.code) : run.err));
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

} // namespace opdock::plugin_pack
