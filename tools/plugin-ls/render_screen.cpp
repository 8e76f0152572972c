#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "document.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {
namespace {

using cli::Cell;
using cli::Table;
using cli::Tint;
using nlohmann::json;

std::string in_order(const json &chain) {
    return words(chain, " > ");
}

Tint tint_of_status(const std::string &status) {
    return status == "loaded" ? Tint::good : status == "rejected" ? Tint::bad : Tint::doubtful;
}

size_t chains_on(const json &chains, const json &device) {
    size_t count = 0;
    for (const json &chain : chains) {
        count += chain.at("device") == device ? 1 : 0;
    }
    return count;
}

// The dtypes are shown only where they make a difference.
void add_chains(Table &table, const json &op) {
    const json &chains = op.at("chains");
    std::string name = op.at("op").get<std::string>();
    for (const json &chain : chains) {
        const bool by_dtype = chains_on(chains, chain.at("device")) > 1;
        table.row(
            {{name},
             {words(chain.at("device"))},
             chain.at("chain").empty() ? Cell{"nothing would serve it", Tint::bad} : Cell{in_order(chain.at("chain"))},
             by_dtype ? Cell{words(chain.at("dtypes")), Tint::quiet} : Cell{}});
        name.clear();
    }
    if (chains.empty()) {
        const bool none = op.at("implementations").empty();
        table.row({{name}, {"-"}, {none ? "no implementation" : "nothing would serve it", Tint::bad}});
    }
}

Tint tint_of_available(const std::string &available) {
    return available == "yes" ? Tint::good : available == "no" ? Tint::bad : Tint::doubtful;
}

} // namespace

std::string render_plugins(const json &plugins, const Paint &paint) {
    Table table;
    for (const json &plugin : plugins) {
        const std::string status = plugin.at("status").get<std::string>();
        table.row({{words(plugin.at("id"))},
                   {words(plugin.at("version"))},
                   {words(plugin.at("vendor"))},
                   {status, tint_of_status(status)},
                   {words(plugin.at("path"))}});
        const std::string code = text_of(plugin, "code");
        table.note(code + (code.empty() ? "" : ": ") + text_of(plugin, "reason"));
    }
    return table.text(paint);
}

std::string render_op(const json &op, const Paint &paint) {
    std::string text = paint(Tint::heading, op.at("op").get<std::string>()) + "\n  " + words(op.at("signature")) + "\n";
    Table table;
    for (const json &impl : op.at("implementations")) {
        const std::string available = impl.at("available").get<std::string>();
        table.row({{words(impl.at("impl_id"))},
                   {words(impl.at("kind"))},
                   {words(impl.at("vendor"))},
                   {"priority " + words(impl.at("priority"))},
                   {words(impl.at("device"))},
                   {"available: " + available, tint_of_available(available)},
                   {"from " + words(impl.at("plugin"))},
                   {words(impl.at("dtypes")), Tint::quiet}});
        table.note(text_of(impl, "reason"));
    }
    text += table.text(paint);
    Table chains;
    for (const json &chain : op.at("chains")) {
        chains.row(
            {{"on " + words(chain.at("device"))},
             chain.at("chain").empty() ? Cell{"nothing would serve it", Tint::bad} : Cell{in_order(chain.at("chain"))},
             {words(chain.at("dtypes")), Tint::quiet}});
    }
    return text + chains.text(paint);
}

std::string render_screen(const json &document, bool verbose, const Paint &paint) {
    const json &host = document.at("host");
    std::string text = "opdock " + words(host.at("version")) + ", ABI " + words(host.at("abi").at("major")) + "." +
                       words(host.at("abi").at("minor")) + "\n\n" + paint(Tint::heading, "PLUGINS") + "\n";
    text += document.at("plugins").empty() ? "  none found; 'plugin-ls --paths' shows where was searched\n"
                                           : render_plugins(document.at("plugins"), paint);
    if (document.at("ops").empty()) {
        return text;
    }
    text += "\n" + paint(Tint::heading, "OPS") + " and the implementations in the order they are tried\n";
    if (verbose) {
        for (const json &op : document.at("ops")) {
            text += "\n" + render_op(op, paint);
        }
        return text;
    }
    Table table;
    for (const json &op : document.at("ops")) {
        add_chains(table, op);
    }
    return text + table.text(paint);
}

} // namespace opdock::plugin_ls
