#include "inspect/inspect.hpp"

#include <utility>

#include <fmt/format.h>

#include "inspect/elf.hpp"
#include "inspect/elf_dynamic.hpp"
#include "inspect/elf_notes.hpp"
#include "opdock/plugin.h"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

const std::string &the_note(const PluginFile &file, const ElfNotes &notes) {
    if (notes.opdock.empty()) {
        throw Rejected(RejectCode::no_note,
                       fmt::format("'{}' is a shared object without opdock's note, so it is not an opdock plugin.\nIf "
                                   "it should be a plugin, put OPDOCK_NOTE(...) at file scope into one of its sources.",
                                   file.name()));
    }
    if (notes.opdock.size() > 1) {
        throw Rejected(RejectCode::malformed_note,
                       fmt::format("'{}' has {} of opdock's notes, expected one.\n"
                                   "Put OPDOCK_NOTE(...) into exactly one source; link two plugins as two files.",
                                   file.name(), notes.opdock.size()));
    }
    return notes.opdock.front();
}

// Checks what the loader would refuse, as far as that can be determined from outside.
void judge_dynamic(const ElfImage &image, const ElfDynamic &dynamic, LibraryVersions &versions) {
    const std::string &name = image.file().name();
    if (dynamic.libraries.soname.find('/') != std::string::npos) {
        throw Rejected(
            RejectCode::bad_soname,
            fmt::format("'{}' has a path as its library name, '{}' (DT_SONAME): the dynamic loader would give it to "
                        "whoever asks for that path.\nLink it with a name without '/', or without -soname.",
                        name, visible_line(dynamic.libraries.soname)));
    }
    for (const VersionNeed &need : dynamic.versions) {
        if (versions.lacks(need.library, need.version)) {
            throw Rejected(RejectCode::version_missing,
                           fmt::format("'{}' needs {} of {}; the newest here is {}.\nIt was built on a newer system. "
                                       "Rebuild it on the oldest system it must run on, or install a newer {}.",
                                       name, visible_line(need.version), visible_line(need.library),
                                       versions.newest_like(need.library, need.version), visible_line(need.library)));
        }
    }
    if (!exports_function(image, OPDOCK_ENTRY_SYMBOL)) {
        throw Rejected(RejectCode::entry_missing,
                       fmt::format("'{}' exports no function " OPDOCK_ENTRY_SYMBOL ".\n"
                                   "Define it with OPDOCK_ENTRY, and check that no version script hides it.",
                                   name));
    }
}

std::vector<std::string> weaknesses_of(const std::string &name, const ElfDynamic &dynamic) {
    std::vector<std::string> found;
    const auto add = [&](bool is_so, std::string_view what, std::string_view remedy) {
        if (is_so) {
            found.push_back(fmt::format("'{}' {}.\n{}", name, what, remedy));
        }
    };
    add(dynamic.has_writable_code, "has memory that is both writable and executable",
        "Link it without -z rwx segments or a linker script that merges them.");
    add(dynamic.has_executable_stack, "makes the stacks of all threads executable",
        "Link it with -z noexecstack; an assembly source without a .note.GNU-stack section is the usual cause.");
    add(dynamic.relocates_text, "has text relocations: its code is written to while it is loaded",
        "Compile all of it with -fPIC.");
    return found;
}

std::vector<std::string> remarks_of(const std::string &name, const ElfImage &image, const std::string &soname) {
    std::vector<std::string> remarks;
    if (soname.starts_with("libopdock.so")) {
        remarks.push_back(fmt::format(
            "'{}' has the library name '{}' (DT_SONAME), the name of the host's own library: whoever opens or needs "
            "that library later may get the plugin.\nLink it without -soname, or under another name.",
            name, visible_line(soname)));
    }
    const std::vector<std::string> unique = unique_symbols(image, 1);
    if (!unique.empty()) {
        remarks.push_back(
            fmt::format("'{}' defines symbols that are unique in the whole process (STB_GNU_UNIQUE), such as '{}': "
                        "plugins may get each other's symbols, and none of these plugins is ever unmapped.\nLink it "
                        "with a version script, as opdock_add_plugin does, or compile it with -fno-gnu-unique.",
                        name, visible_line(unique.front())));
    }
    return remarks;
}

void judge(const PluginFile &file, LibraryVersions &versions, Inspection &result) {
    result.identity = file.identity();
    const ElfImage image(file);
    const ElfNotes notes = read_notes(image);
    result.build_id = notes.build_id;
    result.note = parse_note(file.name(), the_note(file, notes), host_abi);
    if (const auto reason = judge_cpu_features(file.name(), result.note->cpu_features, machine_cpu_features())) {
        throw Rejected(RejectCode::cpu_feature_missing, *reason);
    }
    ElfDynamic dynamic = read_dynamic(image);
    result.names_auditors = dynamic.names_auditors;
    judge_dynamic(image, dynamic, versions);
    result.weaknesses = weaknesses_of(file.name(), dynamic);
    result.remarks = remarks_of(file.name(), image, dynamic.libraries.soname);
    result.libraries = std::move(dynamic.libraries);
}

// `open` creates the PluginFile, and may already reject it.
template<class Open>
Inspection inspect_opened(const std::filesystem::path &path, LibraryVersions &versions, Open open) {
    Inspection result;
    try {
        judge(open(), versions, result);
    } catch (const Rejected &rejected) {
        result.rejection = Rejection{rejected.code(), path, rejected.what()};
    }
    return result;
}

} // namespace

Inspection inspect(const std::filesystem::path &path, LibraryVersions &versions) {
    return inspect_opened(path, versions, [&] { return PluginFile(path); });
}

Inspection inspect(const HeldDirectory &directory, const std::string &name, LibraryVersions &versions) {
    return inspect_opened(std::filesystem::path(directory.path()) / name, versions,
                          [&] { return PluginFile(directory, name); });
}

} // namespace opdock::core
