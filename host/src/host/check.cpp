#include "host/check.hpp"

#include <nlohmann/json.hpp>

#include <spdlog/fmt/fmt.h>

#include "inspect/dependencies.hpp"
#include "inspect/inspect.hpp"
#include "inspect/manifest.hpp"
#include "load/register.hpp"
#include "probe/scan_cache.hpp"
#include "text/error.hpp"
#include "tune/plugin_tuning.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

json as_json(const Note &note) {
    return {{"abi", {note.abi.major, note.abi.minor}},
            {"oldest_host", {note.oldest_host.major, note.oldest_host.minor}},
            {"id", note.id},
            {"version", note.version},
            {"vendor", note.vendor},
            {"devices", note.devices},
            {"cpu_features", note.cpu_features}};
}

// "" when the cache does not know the file, or knows nothing bad.
std::string learnt_since(const std::filesystem::path &path, const FileIdentity &now, const std::optional<Scan> &scan) {
    if (!scan) {
        return {};
    }
    if (scan->identity != now) {
        return fmt::format(
            "'{}' was changed since a host scanned it. Hosts that are open go on with what they know; the "
            "next one tries it again.",
            path.filename().string());
    }
    if (scan->rejection && is_quarantine(scan->rejection->code)) {
        return fmt::format("hosts do not try it again ({}): {}", code_text(scan->rejection->code),
                           scan->rejection->message);
    }
    return {};
}

// What a plugin.json beside the plugin or one folder up names for it; else the file beside it. Empty: none is there.
std::string tune_file_of(const std::filesystem::path &plugin) {
    for (const std::filesystem::path &folder : {plugin.parent_path(), plugin.parent_path().parent_path()}) {
        try {
            const Manifest manifest = read_manifest((folder / "plugin.json").string());
            if (!manifest.tune.empty() && std::filesystem::path(manifest.library).lexically_normal() == plugin) {
                return manifest.tune;
            }
        } catch (const Error &) { // NOLINT(bugprone-empty-catch): none there, or not a good one, which plugin-ls tells
        }
    }
    const std::string beside = tune_file_beside(plugin.string());
    return std::filesystem::exists(beside) ? beside : "";
}

// What is wrong with its tune file; names only where a host of this user scanned the plugin.
std::vector<std::string> tune_problems(const std::string &plugin, const FileIdentity &now,
                                       const std::optional<Scan> &scan) {
    const std::string path = tune_file_of(plugin);
    if (path.empty()) {
        return {};
    }
    if (scan && scan->identity == now && scan->transcript != nullptr) {
        Signatures signatures;
        Registrar registrar({scan->note->id, scan->note->vendor, plugin, true, scan->note->devices}, nullptr,
                            signatures);
        registrar.run([&](opdock_registry *registry) { return scan->transcript->replay(registry); });
        std::vector<const Implementation *> implementations;
        for (const auto &implementation : registrar.registration().implementations) {
            implementations.push_back(implementation.get());
        }
        return PluginTuning(path, false, implementations).problems();
    }
    std::vector<std::string> problems;
    try {
        const TuneFile file = read_tune_file(path);
        for (const TuneProblem &problem : file.problems) {
            problems.push_back(text_of(file, problem));
        }
    } catch (const Error &error) {
        problems.emplace_back(error.what());
    }
    return problems;
}

} // namespace

json check_file(const std::filesystem::path &path, const std::string &cache_folder) {
    LibraryVersions versions;
    Inspection inspection = inspect(path, versions);
    if (!inspection.rejection && inspection.names_auditors) {
        inspection.weaknesses.push_back(fmt::format(
            "'{}' names libraries for the dynamic loader to run beside it (DT_AUDIT), so whether the libraries and "
            "symbols it uses are there was not checked: that would run them.\nLink it without --audit and --depaudit; "
            "hosts do not run them.",
            path.filename().string()));
    } else if (!inspection.rejection) {
        inspection.rejection = judge_dependencies(path);
    }
    const Log nobody([](void * /*unused*/, int32_t /*unused*/, const char * /*unused*/) {}, nullptr);
    const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
    const std::optional<Scan> scan = ScanCache(cache_folder, nobody).find_any(absolute);
    if (const std::string what = learnt_since(path, inspection.identity, scan); !what.empty()) {
        inspection.weaknesses.push_back(what);
    }
    for (const std::string &problem : tune_problems(absolute, inspection.identity, scan)) {
        inspection.weaknesses.push_back(problem);
    }
    json result = {{"path", path.string()},
                   {"status", inspection.rejection ? "rejected" : "ok"},
                   {"code", inspection.rejection ? code_text(inspection.rejection->code) : ""},
                   {"reason", inspection.rejection ? inspection.rejection->message : ""},
                   {"note", inspection.note ? as_json(*inspection.note) : json(nullptr)},
                   {"warnings", inspection.weaknesses},
                   {"build_id", inspection.build_id}};
    return result;
}

} // namespace opdock::core
