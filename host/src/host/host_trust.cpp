// Decides which plugins a host trusts, before it believes anything in their files and runs any of their code.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "host/host.hpp"
#include "host/plugin_trust.hpp"
#include "inspect/library_place.hpp"
#include "load/load.hpp"
#include "probe/device_query.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

void Host::judge_place(const std::string &path, const struct stat *status, bool refuse, PluginRecord &record) {
    TrustMemory &memory = loading().trust;
    const auto fault = core::judge_place(path, status, memory.rules);
    if (!fault) {
        return;
    }
    if (refuse) {
        throw fault->rejection(path);
    }
    const bool is_new = memory.blamed.insert(fault->place).second;
    if (fault->is_file) {
        record.warnings.push_back(fault->warning(path));
    } else if (is_new) {
        log_.warning(fmt::format("Plugins such as '{}' are used, though {}", path, fault->what));
    }
}

void Host::judge_trust(const PluginCandidate &candidate, const DeferredPlugin::Place &place, PluginRecord &record) {
    const PolicyStack policy = process_policy();
    const TrustPolicy trust = policy.trust();
    const bool strict_place = refuses_unsafe_places(policy.strict(), trust);
    judge_place(candidate.path, candidate.status ? &*candidate.status : nullptr, strict_place, record);
    if (!candidate.manifest.empty()) {
        judge_place(candidate.manifest, nullptr, strict_place, record);
    }
    if (trust.mode == Trust::off || place.identity == FileIdentity{}) {
        return;
    }
    Digest library{};
    {
        const PluginFile file(*place.directory, place.name);
        if (file.identity() != place.identity) {
            throw Rejected(RejectCode::file_changed, changed_since_judged(candidate.path).message);
        }
        library = sha256_of(file);
    }
    TrustVerdict verdict =
        judge_signature(candidate, library, trust, [this]() -> const TrustedKeys & { return trusted_keys(); });
    if (verdict.is_trusted) {
        record.standing = Standing::trusted;
        log_.debug(fmt::format("Plugin '{}' is trusted: {}", candidate.path, verdict.why));
    } else {
        record.warnings.push_back(std::move(verdict.why));
    }
}

void Host::judge_libraries(const Scan &scan, const DeferredPlugin::Place &place, PluginRecord &record) {
    TrustMemory &memory = loading().trust;
    if (const auto fault = memory.libraries.judge(scan.libraries, place.directory->path(), environment_.library_path,
                                                  program_rpath(), memory.rules)) {
        const PolicyStack policy = process_policy();
        if (refuses_unsafe_places(policy.strict(), policy.trust())) {
            throw Rejected(fault->code, fmt::format("'{}' is not used, because {}", place.name, fault->what));
        }
        if (memory.blamed.insert(fault->place).second) {
            log_.warning(fmt::format("Plugins such as '{}' are used, though {}", record.path, fault->what));
        }
    }
    judge_library_names(scan, record);
}

// The loader reuses a loaded library for anyone who needs one of the same name.
void Host::judge_library_names(const Scan &scan, PluginRecord &record) {
    TrustMemory &memory = loading().trust;
    std::vector<TakenLibrary> libraries = memory.libraries.taken();
    for (const std::string &name : scan.libraries.names) {
        if (std::none_of(libraries.begin(), libraries.end(), [&](const auto &known) { return known.name == name; })) {
            libraries.push_back({name, ""});
        }
    }
    if (!scan.libraries.soname.empty()) {
        libraries.push_back({scan.libraries.soname, record.path});
    }
    const auto text = [](const std::string &path) {
        return path.empty() ? std::string("the system's") : fmt::format("'{}'", visible_line(path));
    };
    for (const TakenLibrary &library : libraries) {
        const std::string file_name = std::filesystem::path(library.file).filename();
        // For the plugin itself, the note's remarks cover this.
        if (library.name.starts_with("libopdock.so") && library.file != record.path && !file_name.empty() &&
            !file_name.starts_with("libopdock.so")) {
            record.warnings.push_back(
                fmt::format("'{}' needs the library '{}', whose name is '{}' (DT_SONAME), the name of the host's own "
                            "library.\nGive the plugin's library another name.",
                            record.path, visible_line(library.file), visible_line(library.name)));
        }
        const auto [known, is_new] = memory.taken.try_emplace(library.name, library.file, record.path);
        const auto &[file, plugin] = known->second;
        std::error_code none;
        if (is_new || file == library.file || plugin == record.path ||
            (!file.empty() && !library.file.empty() && std::filesystem::equivalent(file, library.file, none))) {
            continue;
        }
        record.warnings.push_back(
            fmt::format("The library with the name '{}' (DT_SONAME) is {} for '{}', and {} for '{}': if both are "
                        "opened, each gets the library that was opened first.\nGive one of them another name (link a "
                        "plugin without -soname), or have both plugins use the same file.",
                        visible_line(library.name), text(library.file), record.path, text(file), plugin));
    }
}

const TrustedKeys &Host::trusted_keys() {
    TrustMemory &memory = loading().trust;
    if (!memory.keys) {
        memory.keys = read_trusted_keys(trust_folders(environment_, system_trust_folder_), memory.rules);
        for (const std::string &warning : memory.keys->warnings) {
            log_.warning(warning);
        }
    }
    return *memory.keys;
}

std::string Host::ask_device_command(const std::string &command) const {
    return run_device_query(command, probe_, environment_.secure, [&](const std::string &program) -> std::string {
        PathRules rules; // the rules of loading belong to the loading thread
        const auto fault = rules.judge(program);
        if (!fault) {
            return {};
        }
        const std::string what = fmt::format("somebody else could put code into '{}': {}", program, fault->what);
        const PolicyStack policy = process_policy();
        if (environment_.secure || refuses_unsafe_places(policy.strict(), policy.trust())) {
            return fmt::format("{}.\nExpected that only root and the user who runs this process may write there. Run "
                               "`{}`, or install the program elsewhere.",
                               what, fault->remedy);
        }
        log_.warning(fmt::format("The device_query_command '{}' of a vendor is run, though {}", command, what));
        return {};
    });
}

} // namespace opdock::core
