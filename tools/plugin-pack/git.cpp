#include "git.hpp"

#include <future>

#include <boost/asio/io_context.hpp>
#include <boost/process.hpp>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {
namespace {

namespace process = boost::process;

// Filters and hooks are programs that a repository's configuration names; what they would do to files is theirs, and
// not part of the files. With autocrlf the same files would be other bytes on another machine.
const std::vector<std::string> settings = {
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "core.untrackedCache=false",
    "-c", "core.autocrlf=false",
    "-c", "core.eol=lf",
    "-c", "core.attributesFile=/dev/null",
    "-c", "core.safecrlf=false",
    "-c", "core.precomposeUnicode=false",
    "-c", "core.quotePath=true",
    "-c", "color.ui=false",
    "-c", "gc.auto=0",
    "-c", "diff.suppressBlankEmpty=false",
    "-c", "diff.noprefix=false",
    "-c", "diff.mnemonicPrefix=false",
    "-c", "diff.orderFile=/dev/null",
    "-c", "diff.ignoreSubmodules=none",
    "-c", "apply.whitespace=nowarn",
    "-c", "apply.ignoreWhitespace=no",
    "-c", "advice.addEmbeddedRepo=false",
};

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
    static const boost::filesystem::path program = process::search_path("git");
    if (program.empty()) {
        throw cli::Failure("there is no program 'git' on the PATH, which plugin-pack works with");
    }
    std::vector<std::string> all = settings;
    all.insert(all.end(), place.settings.begin(), place.settings.end());
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
