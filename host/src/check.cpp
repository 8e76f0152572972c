#include "check.hpp"

#include <nlohmann/json.hpp>

#include "dependencies.hpp"
#include "inspect.hpp"

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

} // namespace

json check_file(const std::filesystem::path &path) {
    LibraryVersions versions;
    Inspection inspection = inspect(path, versions);
    if (!inspection.rejection) {
        inspection.rejection = judge_dependencies(path);
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
