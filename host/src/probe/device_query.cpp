#include "probe/device_query.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "files/path_rules.hpp"
#include "inspect/library_rules.hpp"
#include "probe/child_process.hpp"
#include "probe/probe.hpp"
#include "probe/transcript_format.h"

namespace opdock::core {
namespace {

std::vector<std::string> words_of(const std::string &command) {
    constexpr const char *blanks = " \t";
    std::vector<std::string> words;
    for (size_t begin = command.find_first_not_of(blanks); begin != std::string::npos;) {
        const size_t end = command.find_first_of(blanks, begin);
        words.push_back(command.substr(begin, end - begin));
        begin = command.find_first_not_of(blanks, end);
    }
    return words;
}

// The program's path; empty if no absolute folder of PATH contains it. A relative folder would depend on the current
// working directory.
std::string find_program(const std::string &name) {
    if (name.find('/') != std::string::npos) {
        return name;
    }
    const char *const path = ::secure_getenv("PATH");
    for (const std::string_view folder : split_path(path != nullptr ? path : "", ":")) {
        std::string file = fmt::format("{}/{}", folder, name);
        struct stat status = {};
        if (folder.starts_with('/') && ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
            ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return {};
}

// The dynamic loader that a program requests (PT_INTERP); "" if it requests none.
template<class Header, class Segment>
std::string loader_of(int file) {
    constexpr std::size_t longest = 4096; // including its NUL, as in Linux
    Header header{};
    Segment segment{};
    if (::pread(file, &header, sizeof header, 0) != sizeof header || header.e_phentsize != sizeof segment) {
        return {};
    }
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
        if (::pread(file, &segment, sizeof segment, at) == sizeof segment && segment.p_type == PT_INTERP) {
            std::string path(std::min<std::size_t>(segment.p_filesz, longest), '\0');
            const ssize_t got = ::pread(file, path.data(), path.size(), static_cast<off_t>(segment.p_offset));
            return path.substr(0, std::min(path.find('\0'), static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
        }
    }
    return {};
}

// The program that Linux runs in order to execute this one: a script's interpreter or a dynamic loader; "" for all
// other files.
std::string interpreter_of(const std::string &program) {
    const Descriptor file(::open(program.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    char text[256];
    const ssize_t got = file.get() >= 0 ? ::pread(file.get(), text, sizeof text, 0) : 0;
    const std::string_view begin(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (begin.starts_with(ELFMAG) && begin.size() > EI_CLASS) {
        return text[EI_CLASS] == ELFCLASS32 ? loader_of<Elf32_Ehdr, Elf32_Phdr>(file.get())
                                            : loader_of<Elf64_Ehdr, Elf64_Phdr>(file.get());
    }
    if (!begin.starts_with("#!")) {
        return {};
    }
    const std::vector<std::string> words = words_of(std::string(begin.substr(2, begin.find('\n') - 2)));
    return words.empty() ? "" : words.front();
}

// Returns why the program, or one of its interpreters, must not be run; "" if all may be run.
std::string judge_programs(std::string program, const JudgeProgram &judge) {
    constexpr int most = 5; // Linux's own limit
    for (int i = 0; i < most && !program.empty(); ++i) {
        if (!program.starts_with('/')) {
            return fmt::format("the path of its interpreter, '{}', is relative", program);
        }
        if (std::string why = judge ? judge(program) : ""; !why.empty()) {
            return why;
        }
        program = interpreter_of(program);
    }
    return {};
}

// The folders of a list that are absolute and that `judge` accepts, so that other users cannot supply what the command
// runs or loads by name. Excludes folders with "$LIB" and the like, which only the dynamic loader can resolve.
template<class Judge>
std::string safe_folders(std::string_view list, std::string_view separators, Judge judge) {
    std::string safe;
    for (const std::string_view element : split_path(list, separators)) {
        const std::string folder(element);
        if (folder.starts_with('/') && folder.find('$') == std::string::npos && !judge(folder)) {
            safe += (safe.empty() ? "" : ":") + folder;
        }
    }
    return safe;
}

// The program's environment, restricted to such folders. PATH is always set: otherwise shells use a default.
std::vector<std::string> environment_of_command() {
    constexpr std::string_view programs = "PATH=", libraries = "LD_LIBRARY_PATH=";
    PathRules rules;
    LibraryRules library_rules;
    const auto of_programs = [&](const std::string &folder) {
        return rules.judge_folder(folder, PathRules::Missing::is_judged);
    };
    const auto of_libraries = [&](const std::string &folder) { return library_rules.judge_searched(folder, rules); };
    std::string path;
    std::vector<std::string> all;
    for (char **variable = environ; *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        if (text.starts_with(programs)) {
            path = safe_folders(text.substr(programs.size()), ":", of_programs);
        } else if (text.starts_with(libraries)) {
            if (const std::string folders = safe_folders(text.substr(libraries.size()), ":;", of_libraries);
                !folders.empty()) {
                all.push_back(std::string(libraries) + folders);
            }
        } else {
            all.emplace_back(text);
        }
    }
    all.push_back(std::string(programs) + (path.empty() ? "/usr/bin:/bin" : path));
    return all;
}

} // namespace

std::string run_device_query(const std::string &command, const std::string &probe, bool secure,
                             const JudgeProgram &judge, std::chrono::milliseconds limit) {
    const auto could_not = [&](const std::string &why) {
        return fmt::format("its vendor's device_query_command '{}' could not be run: {}", command, why);
    };
    std::vector<std::string> words = words_of(command);
    if (words.empty()) {
        return could_not("it is empty");
    }
    if (secure && !words.front().starts_with('/')) {
        return could_not("a process with raised privileges runs only absolute paths");
    }
    if (words.front().find('/') != std::string::npos && !words.front().starts_with('/')) {
        return could_not("its path is relative; expected an absolute path, or the name of a program in PATH");
    }
    words.front() = find_program(words.front());
    if (words.front().empty()) {
        return could_not("no absolute folder in PATH has such a program");
    }
    if (const std::string why = judge_programs(words.front(), judge); !why.empty()) {
        return could_not(why);
    }
    if (probe.empty()) {
        return could_not("plugin-probe is not installed (libexec/opdock/plugin-probe)");
    }
    std::string program = probe;
    std::string mode = OPDOCK_PROBE_QUERY;
    std::string memory = std::to_string(limits_for({"cpu"}).memory);
    std::vector<char *> arguments = {program.data(), mode.data(), memory.data()};
    for (std::string &word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    std::vector<std::string> texts = secure ? std::vector<std::string>() : environment_of_command();
    std::vector<char *> environment(texts.size() + 1); // with a terminating null
    std::transform(texts.begin(), texts.end(), environment.begin(), [](std::string &text) { return text.data(); });
    Pipe status;
    if (const char *failed = status.open()) {
        return could_not(fmt::format("{}: {}", failed, std::generic_category().message(errno)));
    }
    pid_t process = -1;
    {
        ChildStart start;
        start.drop(STDOUT_FILENO);
        start.drop(STDERR_FILENO);
        start.drop(OPDOCK_PROBE_CHANNEL);
        start.drop(OPDOCK_PROBE_DIRECTORY);
        start.give(status.theirs.get(), OPDOCK_PROBE_STATUS);
        start.close_from(OPDOCK_PROBE_STATUS + 1);
        if (const int failed = start.run(arguments.data(), environment.data(), &process); failed != 0) {
            return could_not(std::generic_category().message(failed));
        }
    }
    ChildProcess child(process, std::move(status.ours));
    try {
        const bool in_time = child.wait_until(ChildProcess::Clock::now() + limit);
        const ProcessEnd end = child.reap();
        if (!end.confined) {
            return could_not(not_confined);
        }
        if (!in_time) {
            return fmt::format("its vendor's device_query_command '{}' was stopped after {} s", command,
                               std::chrono::duration<double>(limit).count());
        }
        if (!end.known) {
            return could_not("its exit status is not known: this program collected it, or ignores SIGCHLD");
        }
        switch (WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 0) {
        case OPDOCK_PROBE_NOT_FOUND:
            return could_not(std::generic_category().message(ENOENT));
        case OPDOCK_PROBE_CANNOT_RUN:
            return could_not(std::generic_category().message(EACCES));
        case OPDOCK_PROBE_NO_PROGRAM:
            return could_not("it is neither a program for this machine nor a script that begins with #!");
        default:
            break;
        }
        return end.status == 0
                   ? ""
                   : fmt::format(
                         "its vendor's device_query_command '{}' reports that the device is not present: it ended{}",
                         command, how_it_ended(end));
    } catch (const ChannelFailure &failure) {
        return could_not(fmt::format("{}: {}", failure.call, std::generic_category().message(failure.code)));
    }
}

} // namespace opdock::core
