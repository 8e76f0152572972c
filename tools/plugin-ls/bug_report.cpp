#include "bug_report.hpp"

#include <nlohmann/json.hpp>

#include "cli/printable.hpp"
#include "cli/table.hpp"
#include "cli/tool.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {

using cli::Page;
using cli::Table;
using nlohmann::json;

std::string render_bug_report(const Machine &machine, const json &document, const std::string &error) {
    const Page plain(false);
    Table facts;
    facts.row({{"tool"}, {cli::version_with_abi("plugin-ls")}});
    facts.row({{"library"}, {machine.library}});
    facts.row({{"system"}, {machine.system}});
    facts.row({{"kernel"}, {machine.kernel}});
    facts.row({{"processor"}, {machine.processor}});
    std::string text = "opdock bug report\n\nMACHINE\n" + facts.text(plain) + "\nENVIRONMENT\n";
    Table variables;
    for (const auto &[name, value] : machine.variables) {
        variables.row({{name}, {value}});
    }
    text += machine.variables.empty() ? "  no variable of opdock is set\n" : variables.text(plain);
    if (document.is_null()) {
        return text + "\nTHE HOST DID NOT OPEN\n  " + cli::indent_further_lines(cli::printable(error), 2) + "\n";
    }
    return text + "\nSEARCH PATHS\n" + render_paths(document.at("paths"), plain) + "\nPOLICY\n" +
           render_policy(document.at("policy"), plain) + "\nHOST\n" + render_screen(document, true, plain);
}

} // namespace opdock::plugin_ls
