#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "document.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {
namespace {

using cli::Table;
using cli::Tint;
using nlohmann::json;

// An empty allow list allows no vendor; without an allow list all vendors are allowed.
std::string list_of_vendors(const json &list, const char *when_null) {
    if (list.is_null()) {
        return when_null;
    }
    return list.empty() ? "nobody" : words(list, ", ");
}

std::string contracts_text(const json &list) {
    return list.is_null() || list.empty() ? "nothing" : words(list, ", ");
}

// "60 s", or "off".
std::string retry_text(const json &seconds) {
    std::ostringstream text;
    text << seconds.get<double>() << " s";
    return seconds == 0 ? "off" : text.str();
}

// The source of a setting; "" if no layer sets it.
std::string source_of(const json &policy, const std::string &setting) {
    const json &sources = policy.at("sources");
    const auto found = sources.find(setting);
    return source_text(found == sources.end() ? "built-in" : words(*found));
}

bool has_row_of_its_own(std::string_view setting) {
    constexpr std::array<std::string_view, 13> others = {
        "prefer",       "strict", "allow_vendors",  "deny_vendors", "per_op",  "require",        "require_per_op",
        "retry_failed", "trust",  "trusted_sha256", "sources",      "devices", "default_plugins"};
    return std::ranges::find(others, setting) != others.end();
}

// `where` is "" for all devices.
void add_settings(Table &table, const json &section, const std::string &where) {
    const auto row = [&](const std::string &setting, const std::string &value) {
        table.row({{where + setting}, {value}, {source_of(section, setting), Tint::quiet}});
    };
    row("prefer", words(section.at("prefer")));
    row("strict", words(section.at("strict")));
    row("allow_vendors", list_of_vendors(section.at("allow_vendors"), "everybody"));
    row("deny_vendors", list_of_vendors(section.at("deny_vendors"), "nobody"));
    for (const auto &[op, order] : section.at("per_op").items()) {
        row("per_op." + op, words(order, " > "));
    }
    row("retry_failed", retry_text(section.at("retry_failed")));
    for (const auto &[setting, value] : section.items()) {
        if (!has_row_of_its_own(setting)) {
            row(setting, words(value, ", "));
        }
    }
    row("require", contracts_text(section.at("require")));
    for (const auto &[op, contracts] : section.at("require_per_op").items()) {
        row("require." + op, contracts_text(contracts));
    }
}

} // namespace

std::string render_paths(const json &paths, const Page &page) {
    Table table;
    table.head({"folder or file", "named by"});
    for (const json &path : paths) {
        table.row({{words(path.at("path"))}, {words(path.at("origin")), Tint::quiet}});
    }
    return table.text(page);
}

std::string render_variables(const json &variables, const Page &page) {
    Table table;
    table.head({"variable", "source", "value"});
    for (const json &variable : variables) {
        const std::string name = words(variable.at("name"));
        if (!variable.at("value").is_null()) {
            const std::string value = variable.at("value").get<std::string>();
            table.row({{name}, {"environment", Tint::quiet}, {value.empty() ? "(empty)" : value}});
        } else if (variable.at("is_policy").get<bool>()) {
            table.row({{name}, {"not set", Tint::quiet}, {""}}); // the value in force is listed above
        } else {
            table.row({{name}, {"built-in", Tint::quiet}, {words(variable.at("default"))}});
        }
    }
    return table.text(page);
}

std::string render_policy(const json &policy, const Page &page) {
    Table table;
    table.head({"setting", "value", "source"});
    add_settings(table, policy, "");
    table.row({{"trust"}, {words(policy.at("trust"))}, {source_of(policy, "trust"), Tint::quiet}});
    const json &digests = policy.at("trusted_sha256");
    // Digests go below, since they are wider than the column.
    table.row({{"trusted_sha256"},
               {digests.empty() ? "none" : std::to_string(digests.size()) + " listed"}, // empty() is true for null too
               {source_of(policy, "trusted_sha256"), Tint::quiet}});
    for (const json &digest : digests) {
        table.note(words(digest));
    }
    const json &default_plugins = policy.at("default_plugins");
    table.row({{"default_plugins"},
               {default_plugins.empty() ? "opdock's own" : words(default_plugins, ", ")},
               {source_of(policy, "default_plugins"), Tint::quiet}});
    if (const auto devices = policy.find("devices"); devices != policy.end()) {
        for (const auto &[device, section] : devices->items()) {
            add_settings(table, section, device + " ");
        }
    }
    return table.text(page);
}

} // namespace opdock::plugin_ls
