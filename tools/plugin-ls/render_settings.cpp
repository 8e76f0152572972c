#include <nlohmann/json.hpp>

#include "document.hpp"
#include "render.hpp"
#include "table.hpp"

namespace opdock::plugin_ls {
namespace {

using nlohmann::json;

// An allow list that was set and is empty allows nobody; no allow list allows everybody.
std::string list_of_vendors(const json &list, const char *when_null) {
    if (list.is_null()) {
        return when_null;
    }
    return list.empty() ? "nobody" : words(list, ", ");
}

// The source of an item; one that no layer sets has none.
std::string source_of(const json &policy, const std::string &setting) {
    const json &sources = policy.at("sources");
    const auto found = sources.find(setting);
    return found == sources.end() ? "default" : words(*found);
}

} // namespace

std::string render_paths(const json &paths, const Paint &paint) {
    Table table;
    for (const json &path : paths) {
        table.row({{words(path.at("path"))}, {words(path.at("origin")), Tint::quiet}});
    }
    return table.text(paint);
}

std::string render_policy(const json &policy, const Paint &paint) {
    Table table;
    const auto row = [&](const std::string &setting, const std::string &value) {
        table.row({{setting}, {value}, {"from " + source_of(policy, setting), Tint::quiet}});
    };
    row("prefer", words(policy.at("prefer")));
    row("strict", words(policy.at("strict")));
    row("allow_vendors", list_of_vendors(policy.at("allow_vendors"), "everybody"));
    row("deny_vendors", list_of_vendors(policy.at("deny_vendors"), "nobody"));
    for (const auto &[op, order] : policy.at("per_op").items()) {
        row("per_op." + op, words(order, " > "));
    }
    return table.text(paint);
}

} // namespace opdock::plugin_ls
