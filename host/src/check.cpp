#include "check.hpp"

#include <nlohmann/json.hpp>

#include <spdlog/fmt/fmt.h>

#include "dependencies.hpp"
#include "inspect.hpp"
#include "scan_cache.hpp"

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
std::string learnt_since(const std::filesystem::path &path, const FileIdentity &now, const std::string &cache_folder) {
    const Log nobody([](void * /*unused*/, int32_t /*unused*/, const char * /*unused*/) {}, nullptr);
    const ScanCache cache(cache_folder, nobody);
    const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
    const std::optional<Scan> scan = cache.find_any(absolute);
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
    if (const std::string what = learnt_since(path, inspection.identity, cache_folder); !what.empty()) {
        inspection.weaknesses.push_back(what);
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
