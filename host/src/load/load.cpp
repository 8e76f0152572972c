#include "load/load.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "files/plugin_file.hpp"
#include "inspect/elf.hpp"
#include "inspect/elf_dynamic.hpp"
#include "inspect/elf_notes.hpp"
#include "load/mapped_file.hpp"
#include "load/plugin_call.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::size_t most_generations = 256; // limit on versions of files at one path that a process opens

Rejection other_file_mapped(const std::filesystem::path &path) {
    return {RejectCode::file_changed, path,
            fmt::format("the dynamic loader opened another file in place of '{}' than the one that was checked, so it "
                        "is not used.\nThe file was replaced meanwhile, or a library of this process has this path as "
                        "its name (DT_SONAME). Install plugins by renaming them into place, then open the host again.",
                        path.filename().string())};
}

// The name to pass to the dynamic loader, which returns a loaded library for a known name, regardless of the file now
// at that path. Prefixing "./" to the file's name makes another name for the same file.
struct LoaderName {
    std::string text;
    std::optional<std::string> older; // build id of the plugin loaded earlier from this path
};

LoaderName find_free_name(const HeldDirectory &directory, const std::string &name, const MappedFile &file) {
    LoaderName found{directory.name_for_loader(name), {}};
    for (std::string before = "./"; before.size() < 2 * most_generations; before += "./") {
        void *const there = ::dlopen(found.text.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        if (there == nullptr) {
            break;
        }
        const bool is_it = file.is_what_was_loaded(there);
        if (!is_it && name_of_loaded(there) == found.text) { // otherwise a library has this path as its DT_SONAME
            found.older = build_id_of_loaded(there);
        }
        ::dlclose(there);
        if (is_it) {
            break;
        }
        found.text = directory.name_for_loader(before + name);
    }
    return found;
}

// Unique symbols would resolve to those of the older build, for code that was compiled against the newer one.
void refuse_shared_state(const PluginFile &file, const std::string &older, const std::string &newer) {
    const std::vector<std::string> unique = unique_symbols(ElfImage(file), 1);
    if (!unique.empty() && (older != newer || older.empty())) {
        throw Rejected(RejectCode::file_changed,
                       fmt::format("'{}' was replaced: this process already opened {} of it, and {} would use the "
                                   "earlier file's '{}' (STB_GNU_UNIQUE).\nRestart the process to use the new file.",
                                   file.name(), build_text(older), build_text(newer), visible_line(unique.front())));
    }
}

// Plugins are opened through /proc/self/fd: see held_directory.hpp.
bool is_proc_there() {
    struct stat status = {};
    return ::stat("/proc/self/fd", &status) == 0;
}

} // namespace

bool is_still(const FileIdentity &judged, const HeldDirectory &directory, const std::string &name) {
    struct stat status = {};
    return ::fstatat(directory.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           identity_of(status) == judged;
}

// glibc reports the cause only as a sentence, so causes are recognized by its words.
Rejection explain_refusal(const std::filesystem::path &path, std::string text) {
    // The loader knows the plugin by the path of its held folder, here or in the probe.
    constexpr std::string_view held = "/proc/self/fd/";
    const bool is_itself = text.starts_with(held); // not a library that it needs
    for (std::size_t at = 0; (at = text.find(held, at)) != std::string::npos;) {
        const std::size_t end = std::min(text.find('/', at + held.size()), text.size());
        text.replace(at, end - at, path.parent_path().string());
    }
    const std::string again = path.parent_path().string() + "/./"; // see find_free_name
    for (std::size_t at = 0; (at = text.find(again, at)) != std::string::npos;) {
        text.erase(at + again.size() - 2, 2);
    }
    text = visible_line(text);
    const std::string name = path.filename().string();
    const auto contains = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
    const auto rejection = [&](RejectCode code, std::string_view remedy) {
        return Rejection{code, path, fmt::format("'{}' does not load: {}.\n{}", name, text, remedy)};
    };
    if (contains("undefined symbol: ")) {
        return rejection(RejectCode::symbol_unresolved,
                         "Link the plugin with every library it uses (-z defs finds this when it is built), or install "
                         "the version of that library it was built with.");
    }
    if (contains("cannot open shared object file") && is_itself && !is_proc_there()) {
        return rejection(RejectCode::no_proc, "/proc is not mounted; plugins are opened through it, so that nobody can "
                                              "replace their folder. Mount it: `mount -t proc proc /proc`.");
    }
    if (contains("cannot open shared object file") && is_itself) {
        return rejection(RejectCode::unreadable, "Check the path and its permissions.");
    }
    if (contains("cannot open shared object file")) {
        return rejection(
            RejectCode::library_missing,
            fmt::format("Install that library, or add its folder to LD_LIBRARY_PATH; `ldd {}` lists what is "
                        "missing.",
                        path.string()));
    }
    if (contains("' not found (required by")) {
        return rejection(RejectCode::version_missing, "It was built on a newer system. Install that version, or "
                                                      "rebuild the plugin on the oldest system it must run on.");
    }
    if (contains("static TLS block")) {
        return rejection(RejectCode::no_static_tls, "Rebuild it without -ftls-model=initial-exec, or load it before "
                                                    "other libraries use up the room (LD_PRELOAD).");
    }
    return rejection(RejectCode::load_failed, "The text after the colon is the dynamic loader's.");
}

Rejection no_entry(const std::filesystem::path &path) {
    return {RejectCode::entry_missing, path,
            fmt::format("'{}' exports no function " OPDOCK_ENTRY_SYMBOL ".\n"
                        "Define it with OPDOCK_ENTRY, and check that no version script hides it.",
                        path.filename().string())};
}

std::variant<Loaded, Rejection> load(const HeldDirectory &directory, const std::string &name,
                                     const FileIdentity &judged) {
    using boost::dll::load_mode::type;
    const std::filesystem::path path = std::filesystem::path(directory.path()) / name;
    if (!is_still(judged, directory, name)) {
        return changed_since_judged(path);
    }
    std::optional<MappedFile> file;
    LoaderName loader_name;
    std::string warning;
    try {
        const PluginFile opened(directory, name);
        if (opened.identity() != judged) {
            return changed_since_judged(path);
        }
        file.emplace(opened);
        loader_name = find_free_name(directory, name, *file);
        if (const auto &older = loader_name.older) {
            const std::string newer = read_notes(ElfImage(opened)).build_id;
            refuse_shared_state(opened, *older, newer);
            warning = fmt::format("'{}' was replaced after this process first opened it: {} is used from now on, and "
                                  "{} stays in memory until the process ends",
                                  path.string(), build_text(newer), build_text(*older));
        }
    } catch (const Rejected &rejected) {
        return Rejection{rejected.code(), path, rejected.what()};
    }
    boost::dll::shared_library library;
    // Returns null, or the loader's message, which is valid until the next use of the loader.
    const auto open = [&]() -> const char * {
        // After dlopen Boost would run with the CPU flags that constructors left, so they are cleared first.
        void *const opened = ::dlopen(loader_name.text.c_str(), RTLD_NOW | RTLD_LOCAL);
        clear_cpu_flags();
        if (opened == nullptr) {
            return ::dlerror(); // NOLINT(concurrency-mt-unsafe): per thread
        }
        boost::dll::fs::error_code none; // already loaded
        library.load(boost::dll::fs::path(loader_name.text), none,
                     static_cast<type>(boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local));
        ::dlclose(opened);
        return library.is_loaded() ? nullptr : ::dlerror(); // NOLINT(concurrency-mt-unsafe): per thread
    };
    if (open() != nullptr) {
        // The failure may be lack of memory, which the message does not always say and which is not the plugin's fault.
        // If there is still no memory, this throws bad_alloc; otherwise the second attempt decides.
        constexpr std::size_t some = 65536;
        ::operator delete(::operator new(some));
        if (const char *refused = open()) {
            return explain_refusal(path, refused);
        }
    }
    if (!is_still(judged, directory, name)) {
        return changed_since_judged(path);
    }
    if (!file->is_what_was_loaded(library.native())) {
        return other_file_mapped(path);
    }
    if (!library.has(OPDOCK_ENTRY_SYMBOL)) {
        return no_entry(path);
    }
    opdock_entry entry = &library.get<opdock_status(opdock_registry *)>(OPDOCK_ENTRY_SYMBOL);
    return Loaded{std::move(library), entry, std::move(warning)};
}

void keep_mapped(Loaded &&loaded) {
    // A union, whose destructor does not run, so that the plugin is never unmapped. It leaks only the handle.
    union Forever {
        boost::dll::shared_library library;
        explicit Forever(boost::dll::shared_library &&from) : library(std::move(from)) {}
        ~Forever() {} // NOLINT(modernize-use-equals-default): a defaulted destructor would be deleted
    };
    const Forever forever(std::move(loaded.library));
}

} // namespace opdock::core
