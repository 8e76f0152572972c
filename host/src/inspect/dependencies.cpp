#include "inspect/dependencies.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/spawn.hpp"
#include "inspect/elf_dynamic.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// The loader of this process, so that it lists what this process would get. "" if it has no name to find it by.
std::string dynamic_loader() {
    std::string path;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t /*size*/, void *data) {
            const std::filesystem::path library = info->dlpi_name;
            if (!library.filename().string().starts_with("ld-") && library.filename() != "ld64.so.2") {
                return 0;
            }
            *static_cast<std::string *>(data) = library.string();
            return 1;
        },
        &path);
    return path;
}

std::string read_all(int descriptor) {
    std::string text;
    constexpr auto limit = std::chrono::seconds(5); // a library may be a pipe
    const auto end = std::chrono::steady_clock::now() + limit;
    std::array<char, 4096> buffer{};
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        pollfd readable = {descriptor, POLLIN, 0};
        if (left <= 0 || (::poll(&readable, 1, static_cast<int>(left)) <= 0 && errno != EINTR)) {
            return text;
        }
        if (readable.revents == 0) {
            continue;
        }
        const ssize_t got = TEMP_FAILURE_RETRY(::read(descriptor, buffer.data(), buffer.size()));
        if (got <= 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

// The output of `LD_TRACE_LOADED_OBJECTS=1 ld.so FILE`, as used by ldd; "" if it cannot be run. With --list the loader
// would stop at the first missing library.
std::string listed(const std::string &loader, const std::filesystem::path &path) {
    std::array<int, 2> ends{};
    if (loader.empty() || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return {};
    }
    Spawn spawn;
    spawn.give(ends[1], STDOUT_FILENO);
    spawn.drop(STDERR_FILENO);
    std::string program = loader;
    std::string tracing = "LD_TRACE_LOADED_OBJECTS=1";
    std::error_code error; // without a working directory the given path is used
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    std::string file = error ? path.string() : absolute.string();
    std::array<char *, 3> arguments = {program.data(), file.data(), nullptr};
    std::vector<char *> environment = {tracing.data()};
    for (char **variable = environ; *variable != nullptr; ++variable) {
        environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    pid_t child = 0;
    const int failed = spawn.run(arguments.data(), environment.data(), &child);
    ::close(ends[1]);
    std::string text;
    if (failed == 0) {
        text = read_all(ends[0]);
        (void)::kill(child, SIGKILL); // in case it did not end
        (void)TEMP_FAILURE_RETRY(::waitpid(child, nullptr, 0));
    }
    ::close(ends[0]);
    return text;
}

struct Dependencies {
    std::vector<std::filesystem::path> found;
    std::vector<std::string> missing;
};

// Parses lines such as "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x...)" and "libacme.so => not found".
Dependencies parse(const std::string &text) {
    Dependencies result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t arrow = line.find(" => ");
        const std::size_t name = line.find_first_not_of(" \t");
        if (arrow == std::string::npos) { // the loader itself, or the kernel's vDSO
            if (name != std::string::npos && line[name] == '/') {
                result.found.emplace_back(line.substr(name, line.find(" (", name) - name));
            }
            continue;
        }
        const std::string target = line.substr(arrow + 4, line.rfind(" (") - (arrow + 4));
        if (target == "not found") {
            result.missing.push_back(line.substr(name, arrow - name));
        } else {
            result.found.emplace_back(target);
        }
    }
    return result;
}

bool defined_in_any(const std::vector<std::filesystem::path> &libraries, const std::string &symbol) {
    return std::any_of(libraries.begin(), libraries.end(), [&](const std::filesystem::path &library) {
        const PluginFile file(library);
        return defines_symbol(ElfImage(file), symbol);
    });
}

} // namespace

std::optional<Rejection> judge_dependencies(const std::filesystem::path &path) {
    const std::string name = path.filename().string();
    const std::string list = listed(dynamic_loader(), path);
    if (list.empty()) {
        return std::nullopt;
    }
    const Dependencies dependencies = parse(list);
    if (!dependencies.missing.empty()) {
        return Rejection{RejectCode::library_missing, path,
                         fmt::format("'{}' needs '{}', which is not found.\nInstall that library, or add its folder to "
                                     "LD_LIBRARY_PATH.",
                                     name, fmt::join(dependencies.missing, "', '"))};
    }
    try {
        const PluginFile file(path);
        std::vector<std::string> unresolved;
        for (const std::string &symbol : undefined_symbols(ElfImage(file))) {
            if (!defined_in_any(dependencies.found, symbol)) {
                unresolved.push_back(visible_line(symbol));
            }
        }
        if (!unresolved.empty()) {
            return Rejection{RejectCode::symbol_unresolved, path,
                             fmt::format("'{}' uses '{}', which no library it needs defines.\nLink the plugin with "
                                         "every library it uses (-z defs finds this when it is built).",
                                         name, fmt::join(unresolved, "', '"))};
        }
    } catch (const Rejected &rejected) { // a library was rejected, or the file changed meanwhile
        return Rejection{rejected.code(), path, rejected.what()};
    }
    return std::nullopt;
}

} // namespace opdock::core
