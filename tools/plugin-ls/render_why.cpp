#include <map>

#include <nlohmann/json.hpp>

#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "document.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {

using cli::Table;
using cli::Tint;
using nlohmann::json;

namespace {

// The config in use: its source, its key, and whether another one might be faster.
void add_config(Table &table, const json &one) {
    const std::string refused = text_of(one, "refused");
    if (!refused.empty()) {
        table.row({{words(one.at("impl_id")), Tint::bad}, {"would not take the call"}});
        table.note(refused);
        return;
    }
    std::string config;
    for (const auto &[knob, value] : one.at("config").items()) {
        config += (config.empty() ? "" : " ") + knob + "=" + words(value);
    }
    const std::string origin = text_of(one, "origin");
    const auto source = one.at("source").get<std::string>();
    table.row({{words(one.at("impl_id")), Tint::good}, {config}});
    table.note("from: " + source + (origin.empty() || origin == source ? "" : ", " + origin));
    for (const json &excluded : one.value("excluded", json::array())) {
        table.note(words(excluded));
    }
    if (!one.contains("key")) {
        return;
    }
    const std::string key = text_of(one, "key");
    const std::string bucketed = text_of(one, "bucketed");
    table.note("key: " + (key.empty() ? "the same for all shapes" : key) +
               (bucketed.empty() ? "" : " (" + bucketed + ")"));
    const auto candidates = one.at("candidates").get<size_t>();
    const std::string file = text_of(one, "tune_file");
    table.note(candidates == 0
                   ? "nothing to tune: " + (file.empty() ? "there is no tune file" : "no configs in " + file)
                   : "to tune: " + cli::counted(candidates, "config") + " of " + file);
}

} // namespace

std::string render_why(const json &decision, const Page &page) {
    const std::string dtypes = text_of(decision, "dtypes");
    std::string text = page.paint(Tint::heading, words(decision.at("op"))) + " on " +
                       page.paint(Tint::plain, words(decision.at("device"))) +
                       (dtypes.empty() ? ", any dtypes" : ", dtypes " + dtypes) + "\n";

    Table key;
    key.row({{"order"}, {words(decision.at("order"), " > ") + ", " + source_text(words(decision.at("order_source")))}});
    key.row({{"strict"},
             {decision.at("strict").get<bool>() ? "yes: the first serves the call, or the call fails"
                                                : "no: the next is tried when one declines or fails"}});
    text += key.text(page);
    if (const std::string problem = text_of(decision, "device_problem"); !problem.empty()) {
        text += "\n" + page.paint(Tint::heading, "DEVICE") + " " +
                page.paint(Tint::plain, words(decision.at("device"))) + " can run no implementation\n  " +
                page.paint(Tint::bad, problem) + "\n";
    }

    std::map<std::string, std::string> rules;
    for (const json &kept : decision.at("kept")) {
        rules[kept.at("impl_id").get<std::string>()] = words(kept.at("rule"));
    }
    text += "\n" + page.paint(Tint::heading, "TRIED") + " in this order\n";
    Table tried;
    size_t place = 0;
    for (const json &impl : decision.at("chain")) {
        const std::string id = impl.get<std::string>();
        tried.row({{std::to_string(++place)}, {id, Tint::good}, {rules[id]}});
    }
    text += place == 0 ? "  " + page.paint(Tint::bad, "nothing would serve it") + "\n" : tried.text(page);

    if (const auto on_cpu = decision.find("on_cpu"); on_cpu != decision.end()) {
        const std::string who = words(on_cpu->at("chain"), ", ");
        text +=
            on_cpu->at("follows").get<bool>()
                ? "  but on the CPU, on copies: " + who + " (fallback_to_cpu, " + words(on_cpu->at("source")) + ")\n"
                : "  On the CPU " + who + " would, on copies, with fallback_to_cpu (PLUGIN_FALLBACK_TO_CPU=1).\n";
    }

    if (const auto configs = decision.find("configs"); configs != decision.end() && !configs->empty()) {
        text += "\n" + page.paint(Tint::heading, "CONFIGS") + " of implementations with knobs\n";
        Table table;
        for (const json &one : *configs) {
            add_config(table, one);
        }
        text += table.text(page);
    }

    if (!decision.at("dropped").empty()) {
        text += "\n" + page.paint(Tint::heading, "DROPPED") + "\n";
        Table dropped;
        for (const json &impl : decision.at("dropped")) {
            dropped.row({{words(impl.at("impl_id")), Tint::bad}, {words(impl.at("rule"))}});
            dropped.note(text_of(impl, "reason"));
        }
        text += dropped.text(page);
    }
    return text;
}

} // namespace opdock::plugin_ls
