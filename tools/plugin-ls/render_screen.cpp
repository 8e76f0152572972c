#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/fill.hpp"
#include "cli/printable.hpp"
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

// Device, chain and dtypes of an op, a row each. Dtypes are shown only if they make a difference.
using Rows = std::vector<std::vector<Cell>>;

Rows chain_rows(const json &op) {
    const json &chains = op.at("chains");
    Rows rows;
    for (const json &chain : chains) {
        const bool by_dtype = chains_on(chains, chain.at("device")) > 1;
        rows.push_back(
            {{words(chain.at("device"))},
             chain.at("chain").empty() ? Cell{"nothing would serve it", Tint::bad} : Cell{in_order(chain.at("chain"))},
             by_dtype ? Cell{words(chain.at("dtypes")), Tint::quiet} : Cell{}});
    }
    if (chains.empty()) {
        const bool none = op.at("implementations").empty();
        rows.push_back({{"-"}, {none ? "no implementation" : "nothing would serve it", Tint::bad}});
    }
    return rows;
}

bool same_text(const Rows &a, const Rows &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
        return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                          [](const Cell &one, const Cell &other) { return one.text == other.text; });
    });
}

constexpr size_t note_indent = 6;

// Groups ops with the same rows, with their names below.
std::string chains_text(const json &ops, const Page &page) {
    struct Group {
        Rows rows;
        std::vector<std::string> names;
    };
    std::vector<Group> groups;
    for (const json &op : ops) {
        Rows rows = chain_rows(op);
        auto group =
            std::find_if(groups.begin(), groups.end(), [&](const Group &known) { return same_text(known.rows, rows); });
        if (group == groups.end()) {
            group = groups.insert(group, {std::move(rows), {}});
        }
        group->names.push_back(op.at("op").get<std::string>());
    }
    Table table;
    for (Group &group : groups) {
        const bool is_one = group.names.size() == 1;
        std::string first = is_one ? group.names.front() : std::to_string(group.names.size()) + " ops";
        for (std::vector<Cell> &row : group.rows) {
            row.insert(row.begin(), Cell{std::exchange(first, "")});
            table.row(std::move(row));
        }
        if (!is_one) {
            std::string names;
            for (const std::string &name : group.names) {
                names += (names.empty() ? "" : ", ") + name;
            }
            table.note(names);
        }
    }
    return table.text(page);
}

// As in a preference order: "default" or "vendor:acme".
std::string kind_text(const json &impl) {
    const std::string kind = words(impl.at("kind"));
    return kind == "vendor" ? kind + ":" + words(impl.at("vendor")) : kind;
}

// A plugin's text with line feeds must not look like rows.
std::string on_one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return cli::printable(text);
}

// Properties that most implementations do not have; "" if there are none. `verbose` adds the declarations.
std::string remark_on(const json &impl, bool verbose) {
    std::string text;
    const auto add = [&](const std::string &what) { text += (text.empty() ? "" : "; ") + what; };
    if (impl.at("priority") != 0) {
        add("priority " + words(impl.at("priority")));
    }
    const std::string available = impl.at("available").get<std::string>();
    const std::string reason = text_of(impl, "reason");
    if (available == "no") {
        add("not available" + (reason.empty() ? "" : ": " + on_one_line(reason)));
    } else if (available == "unknown") {
        add("availability is checked when needed");
    }
    if (verbose) {
        for (const auto &[member, what] :
             {std::pair("needs_contiguous", "needs contiguous tensors"), std::pair("deterministic", "deterministic"),
              std::pair("batch_invariant", "batch invariant"),
              std::pair("capture_safe", "safe to capture in a graph")}) {
            if (impl.value(member, false)) {
                add(what);
            }
        }
        if (impl.value("alignment", 0) != 0) {
            add("data aligned to " + words(impl.at("alignment")) + " bytes");
        }
        const std::string architectures = text_of(impl, "architectures");
        if (!architectures.empty() && architectures != "-") {
            add("for " + architectures);
        }
    }
    return text;
}

// "knob block: 1 to 1024, 64 by default; elements at a time"
std::string knob_text(const json &knob) {
    const std::string range = knob.at("type") == "choice"
                                  ? words(knob.at("choices"), " or ")
                                  : words(knob.at("minimum")) + " to " + words(knob.at("maximum"));
    const std::string doc = text_of(knob, "doc");
    return on_one_line("knob " + words(knob.at("name")) + ": " + range + ", " + words(knob.at("default")) +
                       " by default" + (doc.empty() ? "" : "; " + doc));
}

} // namespace

std::string render_plugins(const json &plugins, bool verbose, const Page &page,
                           const std::map<std::string, std::string> &idle) {
    Table table;
    table.head({"plugin", "version", "vendor", "status", "file"});
    for (const json &plugin : plugins) {
        const std::string status = plugin.at("status").get<std::string>();
        table.row({{words(plugin.at("id"))},
                   {words(plugin.at("version"))},
                   {words(plugin.at("vendor"))},
                   {status, tint_of_status(status)},
                   {words(plugin.at("path"))}});
        if (verbose && !text_of(plugin, "build_id").empty()) {
            table.note("build " + text_of(plugin, "build_id"));
        }
        if (const auto of = idle.find(words(plugin.at("id"))); of != idle.end() && status == "loaded") {
            table.note("serves nothing here; the same command with --why " + of->second + " says why");
        }
        const std::string code = text_of(plugin, "code");
        table.note(code + (code.empty() ? "" : ": ") + text_of(plugin, "reason"));
        for (const json &warning : plugin.at("warnings")) {
            table.note("warning: " + words(warning));
        }
    }
    return table.text(page);
}

std::string render_problems(const json &problems) {
    std::string text;
    for (const json &problem : problems) {
        text += "  " + cli::indent_further_lines(cli::printable(words(problem.at("message"))), 2) + "\n";
    }
    return text;
}

std::string render_op(const json &op, bool verbose, const Page &page) {
    std::string text = page.paint(Tint::heading, op.at("op").get<std::string>()) + "\n  " +
                       cli::fill(cli::parameters_of(cli::printable(words(op.at("signature")))), 2, 6, page.width()) +
                       "\n";
    Table table;
    table.head({"implementation", "kind", "device", "plugin", "dtypes"});
    for (const json &impl : op.at("implementations")) {
        const bool unavailable = impl.at("available") == "no";
        table.row({{words(impl.at("impl_id")), unavailable ? Tint::bad : Tint::plain},
                   {kind_text(impl)},
                   {words(impl.at("device"))},
                   {words(impl.at("plugin"))},
                   {words(impl.at("dtypes")), Tint::quiet}});
        table.note(remark_on(impl, verbose));
        for (const json &knob : impl.value("knobs", json::array())) {
            table.note(cli::fill(cli::words_of(knob_text(knob)), 0, 2, page.width() - note_indent));
        }
    }
    text += table.text(page);
    Table chains;
    for (const json &chain : op.at("chains")) {
        chains.row(
            {{"on " + words(chain.at("device"))},
             chain.at("chain").empty() ? Cell{"nothing would serve it", Tint::bad} : Cell{in_order(chain.at("chain"))},
             {words(chain.at("dtypes")), Tint::quiet}});
    }
    return text + chains.text(page);
}

std::string render_vendors(const json &vendors, const Page &page) {
    Table table;
    table.head({"vendor", "device", "dispatch key", "device exists if this exits with 0"});
    for (const json &vendor : vendors) {
        table.row({{words(vendor.at("name"))},
                   {words(vendor.at("device_name"))},
                   {words(vendor.at("dispatch_key"))},
                   {words(vendor.at("device_query_command"))}});
    }
    return table.text(page);
}

std::string render_counters(const json &counters, const Page &page) {
    Table table;
    table.head({"op", "implementation", "served", "declined", "failed", "in place of others"});
    for (const json &one : counters) {
        std::string fallbacks;
        for (const auto &[reason, count] : one.at("fallbacks").items()) {
            if (count != 0) {
                fallbacks += (fallbacks.empty() ? "" : ", ") + words(count) + " " + reason;
            }
        }
        if (one.at("served") != 0 || one.at("declined") != 0 || one.at("failed") != 0) {
            table.row({{words(one.at("op"))},
                       {words(one.at("impl_id"))},
                       {words(one.at("served"))},
                       {words(one.at("declined"))},
                       {words(one.at("failed")), one.at("failed") == 0 ? Tint::plain : Tint::bad},
                       {fallbacks}});
        }
    }
    return table.text(page);
}

std::string render_screen(const json &document, bool verbose, const Page &page, bool narrowed) {
    const json &host = document.at("host");
    std::string text = "opdock " + words(host.at("version")) + ", ABI " + words(host.at("abi").at(0)) + "." +
                       words(host.at("abi").at(1)) + "\n\n" + page.paint(Tint::heading, "PLUGINS") + "\n";
    text += !document.at("plugins").empty()
                ? render_plugins(document.at("plugins"), verbose, page, idle_plugins(document))
            : narrowed ? "  none matches --plugin, --vendor and --device together; 'plugin-ls' shows all\n"
                       : "  none found; 'plugin-ls --paths' shows the searched places\n";
    if (!document.at("problems").empty()) {
        text += "\n" + page.paint(Tint::heading, "PROBLEMS") + " of the search for plugins\n" +
                render_problems(document.at("problems"));
    }
    if (verbose && !document.value("vendors", json::array()).empty()) {
        text += "\n" + page.paint(Tint::heading, "VENDORS") + " as plugins register them for frameworks\n" +
                render_vendors(document.at("vendors"), page);
    }
    if (document.at("ops").empty()) {
        return text;
    }
    text += "\n" + page.paint(Tint::heading, "OPS") + " and the implementations in the order they are tried\n";
    if (verbose) {
        for (const json &op : document.at("ops")) {
            text += "\n" + render_op(op, true, page);
        }
        return text;
    }
    return text + chains_text(document.at("ops"), page);
}

} // namespace opdock::plugin_ls
