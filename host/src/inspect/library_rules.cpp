#include "inspect/library_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "files/plugin_file.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Limits for one plugin. Far above real numbers; they bound the time that hostile files can take.
constexpr std::size_t most_libraries = 1024;
constexpr std::size_t most_places = 200'000; // candidate paths: each library in each folder of a search path

// True for libraries that every process has loaded, so that the loader does not search for them.
bool is_always_there(std::string_view name) {
    return name == "libc.so.6" || name.starts_with("ld-linux");
}

// The path with a leading $ORIGIN replaced by its folder. nullopt if it is not absolute then, or contains other loader
// variables ($LIB, $PLATFORM), which only the loader can expand.
std::optional<std::string> absolute(std::string_view path, const std::string &origin) {
    std::string result;
    for (const std::string_view word : {std::string_view("$ORIGIN"), std::string_view("${ORIGIN}")}) {
        const std::string_view rest = path.substr(std::min(word.size(), path.size()));
        if (path.starts_with(word) && (rest.empty() || rest.front() == '/')) {
            result = origin;
            path = rest;
            break;
        }
    }
    result += path;
    return result.starts_with('/') && path.find('$') == std::string_view::npos ? std::optional(result) : std::nullopt;
}

// True if it is a path rather than a name to search for. The loader expands variables to paths.
bool is_path(const std::string &name) {
    return name.find_first_of("/$") != std::string::npos;
}

// A link whose target does not exist or cannot be seen. The target may exist when the loader runs.
bool leads_nowhere(const std::string &path) {
    struct stat status = {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) != 0;
}

// `subject`: where the path was found, for the message.
LibraryFault relative(std::string_view subject, std::string_view path, std::string_view remedy) {
    return {
        RejectCode::unsafe_search, std::string(path),
        fmt::format(
            "it would load libraries from {}: {} is {}.\nExpected absolute paths, or paths that begin with $ORIGIN. {}",
            path.find('$') == std::string_view::npos ? "the working directory of whoever runs it"
                                                     : "a place that only the dynamic loader knows",
            subject, path.empty() ? "empty" : fmt::format("'{}'", visible_line(path)), remedy)};
}

LibraryFault unsafe(const std::string &library, const PathRules::Fault &fault) {
    return {RejectCode::unsafe_library, fault.place,
            fmt::format("somebody else could put code into a library that it needs, which the dynamic loader looks for "
                        "as '{}': {}.\nExpected that only root and the user who runs this process may write there. "
                        "Run `{}`, or install the library elsewhere.",
                        visible_line(library), fault.what, fault.remedy)};
}

} // namespace

struct LibraryRules::Needing {
    const LibraryNeeds &needs;
    std::string file;   // empty: the plugin
    std::string folder; // $ORIGIN
    Folders own;        // folders of its RUNPATH or RPATH
    Folders inherited;  // the RPATH of the files that need it
};

std::optional<LibraryFault> LibraryRules::judge(const LibraryNeeds &needs, const std::string &folder,
                                                const std::string &library_path, const std::string &program_rpath,
                                                PathRules &rules) {
    taken_.clear();
    if (!needs.rpath && !needs.runpath && library_path.empty() && program_rpath.empty() &&
        std::none_of(needs.names.begin(), needs.names.end(), is_path)) {
        return std::nullopt; // the common case
    }
    library_path_ = library_path;
    judging_.clear();
    places_ = 0;
    Folders of_program;
    if (!program_rpath.empty()) {
        for (const std::string_view element : split_path(program_rpath, ":")) {
            const std::optional<std::string> path = absolute(element, folder);
            if (!path) {
                return relative("an element of the RPATH of the program", element,
                                "Link the program again, or change it with `patchelf --set-rpath`.");
            }
            of_program.push_back(*path);
        }
    }
    return judge_names({needs, "", folder, {}, std::move(of_program)}, rules);
}

LibraryRules::Folders LibraryRules::searched_by(const Needing &needing) const {
    Folders searched;
    if (!needing.needs.runpath) {
        searched = needing.own;
        searched.insert(searched.end(), needing.inherited.begin(), needing.inherited.end());
    }
    if (!library_path_.empty()) {
        for (const std::string_view element : split_path(library_path_, ":;")) {
            searched.emplace_back(element.starts_with('/') && element.find('$') == std::string_view::npos ? element
                                                                                                          : "");
        }
    }
    if (needing.needs.runpath) {
        searched.insert(searched.end(), needing.own.begin(), needing.own.end());
    }
    return searched;
}

std::optional<LibraryFault> LibraryRules::find_library(const std::string &name, const Folders &searched,
                                                       const Needing &needing, PathRules &rules) {
    for (const std::string &folder : searched) {
        if (folder.empty()) {
            return LibraryFault{
                RejectCode::unsafe_search, "LD_LIBRARY_PATH",
                fmt::format("it would load '{}' from the working directory of whoever runs it: LD_LIBRARY_PATH has an "
                            "element that is empty, relative or contains a '$'.\nExpected absolute paths; a ':' at the "
                            "end makes an empty element too.",
                            visible_line(name))};
        }
        for (const std::string &build : with_builds(folder)) {
            bool is_maybe_taken = false; // only on processors that are new enough
            if (auto fault = judge_library(fmt::format("{}/{}", build, name), needing, rules, is_maybe_taken)) {
                return fault;
            }
        }
        const std::string file = fmt::format("{}/{}", folder, name);
        bool is_taken = false;
        if (auto fault = judge_library(file, needing, rules, is_taken)) {
            return fault;
        }
        if (is_taken) {
            taken_.push_back({name, file});
            return std::nullopt;
        }
    }
    taken_.push_back({name, ""});
    return std::nullopt;
}

std::optional<LibraryFault> LibraryRules::judge_names(const Needing &given, PathRules &rules) {
    Needing needing = given;
    const LibraryNeeds &needs = needing.needs;
    if (const std::optional<std::string> &text = needs.runpath ? needs.runpath : needs.rpath) {
        const char *const tag = needs.runpath ? "RUNPATH" : "RPATH";
        for (const std::string_view element : split_path(*text, ":")) {
            const std::optional<std::string> path = absolute(element, needing.folder);
            if (!path) {
                return relative(needing.file.empty() ? fmt::format("an element of its {}", tag)
                                                     : fmt::format("an element of the {} of '{}', which it needs,", tag,
                                                                   visible_line(needing.file)),
                                element, "Link it again, or change it with `patchelf --set-rpath`.");
            }
            needing.own.push_back(*path);
        }
    }
    const Folders searched = searched_by(needing);
    for (const std::string &name : needs.names) {
        if (is_path(name)) {
            const std::optional<std::string> path = absolute(name, needing.folder);
            if (!path) {
                return relative(needing.file.empty()
                                    ? "the name of a library that it needs"
                                    : fmt::format("the name of a library that '{}' needs", visible_line(needing.file)),
                                name, "Link it with the library's name alone (-l).");
            }
            bool is_taken = false;
            if (auto fault = judge_library(*path, needing, rules, is_taken)) {
                return fault;
            }
            continue;
        }
        if (is_always_there(name)) {
            continue;
        }
        if (auto fault = find_library(name, searched, needing, rules)) {
            return fault;
        }
    }
    return std::nullopt;
}

// Judges the file of a library. If it does not exist, another user might be able to create it; if it is a dangling
// link, another user might be able to create the target.
std::optional<LibraryFault> LibraryRules::judge_library(const std::string &file, const Needing &needing,
                                                        PathRules &rules, bool &is_taken) {
    if (++places_ > most_places) {
        return LibraryFault{
            RejectCode::unsafe_search, file,
            fmt::format("the libraries that it needs, including indirect ones, are looked for in more than {} places: "
                        "each library in each folder of a search path.\nGive them fewer folders in RUNPATH.",
                        most_places)};
    }
    const std::string folder = std::filesystem::path(file).parent_path().string();
    if (const auto fault = rules.judge_folder(folder, PathRules::Missing::is_judged)) {
        return unsafe(file, *fault);
    }
    struct stat status = {};
    if (::stat(file.c_str(), &status) != 0) {
        const auto fault = leads_nowhere(file) ? rules.judge_folder(file, PathRules::Missing::is_judged) : std::nullopt;
        return fault ? std::optional(unsafe(file, *fault)) : std::nullopt;
    }
    if (const auto fault = rules.judge(file)) {
        return unsafe(file, *fault);
    }
    const std::optional<LibraryNeeds> &needs = needs_of(file);
    is_taken = needs.has_value();
    if (!needs || std::find(judging_.begin(), judging_.end(), file) != judging_.end()) {
        return std::nullopt;
    }
    if (needs->soname.find('/') != std::string::npos) {
        return LibraryFault{
            RejectCode::unsafe_search, file,
            fmt::format("'{}', which it needs, has a path as its name, '{}' (DT_SONAME): the dynamic loader would give "
                        "it to whoever asks for that path.\nLink that library with a name without '/'.",
                        visible_line(file), visible_line(needs->soname))};
    }
    if (judging_.size() == most_libraries) {
        return LibraryFault{
            RejectCode::unsafe_search, file,
            fmt::format("it needs more than {} libraries, including indirect ones.\nLink fewer libraries.",
                        most_libraries)};
    }
    judging_.push_back(file);
    if (!needs->soname.empty() && !file.ends_with("/" + needs->soname)) {
        taken_.push_back({needs->soname, file});
    }
    Folders inherited = needing.needs.runpath ? Folders() : needing.own;
    inherited.insert(inherited.end(), needing.inherited.begin(), needing.inherited.end());
    return judge_names({*needs, file, folder, {}, std::move(inherited)}, rules);
}

std::optional<PathRules::Fault> LibraryRules::judge_searched(const std::string &folder, PathRules &rules) {
    Folders folders = with_builds(folder);
    folders.push_back(folder);
    for (const std::string &one : folders) {
        if (auto fault = rules.judge_folder(one, PathRules::Missing::is_judged)) {
            return fault;
        }
        std::error_code no_more;
        for (std::filesystem::directory_iterator entry(one, no_more), end; !no_more && entry != end;
             entry.increment(no_more)) {
            const std::string file = entry->path().string(); // of any name, since any name may be requested
            std::error_code unknown;
            if (auto fault = leads_nowhere(file)            ? rules.judge_folder(file, PathRules::Missing::is_judged)
                             : entry->is_directory(unknown) ? std::nullopt
                                                            : rules.judge(file)) {
                return fault;
            }
        }
    }
    return std::nullopt;
}

// Subfolders with builds for newer processors, as glibc's loader searches them.
const LibraryRules::Folders &LibraryRules::with_builds(const std::string &folder) {
    const auto known = builds_.find(folder);
    if (known != builds_.end()) {
        return known->second;
    }
    Folders found;
    struct stat status = {};
    for (const char *name : {"glibc-hwcaps", "x86-64-v4", "x86-64-v3", "x86-64-v2", "tls", "haswell", "xeon_phi",
                             "avx512_1", "x86_64", "aarch64"}) {
        const std::string below = folder + '/' + name;
        if (leads_nowhere(below)) {
            found.push_back(below); // its target may exist later
        } else if (found.size() < most_libraries && ::stat(below.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
            // Circular links end when the path becomes too long: such a path counts as missing.
            const Folders &more = with_builds(below);
            found.insert(found.end(), more.begin(), more.end());
            found.push_back(below);
        }
    }
    return builds_.emplace(folder, std::move(found)).first->second;
}

const std::optional<LibraryNeeds> &LibraryRules::needs_of(const std::string &file) {
    const auto known = library_.find(file);
    if (known != library_.end()) {
        return known->second;
    }
    std::optional<LibraryNeeds> needs;
    try {
        const PluginFile opened{std::filesystem::path(file)};
        needs = std::move(read_dynamic(ElfImage(opened)).libraries);
    } catch (const Rejected &) { // NOLINT(bugprone-empty-catch): the loader also skips it, or reports the reason
    }
    return library_.emplace(file, std::move(needs)).first->second;
}

} // namespace opdock::core
