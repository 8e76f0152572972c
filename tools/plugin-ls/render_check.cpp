#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "document.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {

using cli::Table;
using cli::Tint;
using nlohmann::json;

std::string render_check(const json &verdict, const Page &page) {
    const std::string status = verdict.at("status").get<std::string>();
    Table table;
    table.row({{"file"}, {words(verdict.at("path"))}});
    table.row({{"status"}, {status, status == "ok" ? Tint::good : status == "faulty" ? Tint::doubtful : Tint::bad}});
    for (const char *member : {"code", "reason"}) {
        if (const std::string text = text_of(verdict, member); !text.empty()) {
            table.row({{member}, {text}});
        }
    }
    if (status == "ok" || status == "faulty") {
        table.row({{"registration"}, {"not checked: that would run the plugin's code"}});
    }
    if (verdict.contains("note") && verdict.at("note").is_object()) {
        for (const auto &[name, value] : verdict.at("note").items()) {
            table.row({{"note." + name}, {words(value, name == "abi" || name == "oldest_host" ? "." : ", ")}});
        }
    } else {
        table.row({{"note"}, {"none that this host can read"}});
    }
    if (verdict.contains("linkage") && verdict.at("linkage").is_object()) {
        const json &linkage = verdict.at("linkage");
        for (const auto &[kind, version] : linkage.at("versions").items()) {
            table.row({{"needs " + kind}, {words(version) + " or newer"}});
        }
        for (const char *member : {"libraries", "search_paths", "exports"}) {
            if (!linkage.at(member).empty()) {
                table.row({{member}, {words(linkage.at(member), ", ")}});
            }
        }
    }
    for (const json &warning : verdict.value("warnings", json::array())) {
        table.row({{"warning"}, {words(warning)}});
    }
    for (const auto &[name, value] : verdict.items()) {
        static const std::vector<std::string> shown = {"path", "status", "code",     "reason",
                                                       "note", "schema", "warnings", "linkage"};
        if (std::find(shown.begin(), shown.end(), name) == shown.end()) {
            table.row({{name}, {words(value, ", ")}});
        }
    }
    return table.text(page);
}

} // namespace opdock::plugin_ls
