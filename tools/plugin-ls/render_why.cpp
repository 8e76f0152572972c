#include <map>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "document.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {

using cli::Table;
using cli::Tint;
using nlohmann::json;

std::string render_why(const json &decision, const Page &page) {
    const std::string dtypes = text_of(decision, "dtypes");
    std::string text = page.paint(Tint::heading, words(decision.at("op"))) + " on " + words(decision.at("device")) +
                       (dtypes.empty() ? ", any dtypes" : ", dtypes " + dtypes) + "\n";

    Table key;
    key.row({{"order"}, {words(decision.at("order"), " > ") + ", " + source_text(words(decision.at("order_source")))}});
    key.row({{"strict"},
             {decision.at("strict").get<bool>() ? "yes: the first serves the call, or the call fails"
                                                : "no: the next is tried when one declines or fails"}});
    text += key.text(page);

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
