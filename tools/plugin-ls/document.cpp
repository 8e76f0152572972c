#include "document.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/suggest.hpp"
#include "signature/other_names.hpp"
#include "signature/standard_ops.hpp"

namespace opdock::plugin_ls {

using nlohmann::json;

std::string words(const json &value, const char *separator) {
    if (value.is_null()) {
        return "-";
    }
    if (value.is_boolean()) {
        return value.get<bool>() ? "yes" : "no";
    }
    if (value.is_string()) {
        const auto &text = value.get_ref<const std::string &>();
        return text.empty() ? "-" : text;
    }
    if (!value.is_array()) {
        return value.dump(-1, ' ', false, json::error_handler_t::replace);
    }
    std::string text;
    for (const json &element : value) {
        text += (text.empty() ? "" : separator) + words(element);
    }
    return text.empty() ? "-" : text;
}

std::string text_of(const json &object, const char *member) {
    const auto found = object.find(member);
    if (found == object.end() || found->is_null() || (found->is_string() && found->get<std::string>().empty())) {
        return "";
    }
    return words(*found);
}

std::string source_text(const std::string &source) {
    return source == "built-in" ? source : "from " + source;
}

std::vector<std::string> op_names(const json &document) {
    std::vector<std::string> names;
    for (const json &op : document.at("ops")) {
        names.push_back(op.at("op").get<std::string>());
    }
    return names;
}

const json &find_op(const json &document, const std::string &name) {
    for (const json &op : document.at("ops")) {
        if (op.at("op") == name) {
            return op;
        }
    }
    const std::vector<std::string> names = op_names(document);
    const bool standard = !core::standard_signature(name).empty();
    std::string hint = core::other_name_hint(name);
    if (hint.empty()) {
        hint = cli::did_you_mean(name, names);
    }
    if (hint.empty() && !names.empty()) {
        hint = "; 'plugin-ls' lists the available ones";
    }
    throw cli::Failure(
        (standard ? "'" + name + "' is a standard op that no loaded plugin implements"
                  : "no plugin declares the op '" + name + "'" + hint) +
        (names.empty() ? "; no plugin was loaded at all, see 'plugin-ls --rejected' and '--paths'" : ""));
}

std::vector<std::string> impl_ids(const json &document) {
    std::set<std::string> ids;
    for (const json &op : document.at("ops")) {
        for (const json &impl : op.at("implementations")) {
            ids.insert(impl.at("impl_id").get<std::string>());
        }
    }
    return {ids.begin(), ids.end()};
}

namespace {

template<class Predicate>
void keep_if(json &list, Predicate predicate) {
    json kept = json::array();
    for (json &element : list) {
        if (predicate(element)) {
            kept.push_back(std::move(element));
        }
    }
    list = std::move(kept);
}

bool is_or_empty(const std::string &asked, const json &found) {
    return asked.empty() || (found.is_string() && cli::same_name(asked, found.get<std::string>()));
}

void expect_known(const char *what, const std::string &asked, const std::set<std::string> &known) {
    if (!asked.empty() &&
        std::none_of(known.begin(), known.end(), [&](const std::string &one) { return cli::same_name(one, asked); })) {
        throw cli::Failure(std::string("no plugin ") + what + " '" + asked + "'" +
                           cli::did_you_mean(asked, std::vector<std::string>(known.begin(), known.end())));
    }
}

using Names = std::set<std::string>;

// Throws cli::Failure for a name that is not in the document.
void expect_known(const json &document, const Filter &filter) {
    Names plugins, vendors, devices;
    for (const json &plugin : document.at("plugins")) {
        plugins.insert(words(plugin.at("id")));
        vendors.insert(words(plugin.at("vendor")));
    }
    for (const json &op : document.at("ops")) {
        for (const json &impl : op.at("implementations")) {
            vendors.insert(words(impl.at("vendor")));
            devices.insert(words(impl.at("device")));
        }
    }
    for (Names *names : {&plugins, &vendors}) {
        names->erase("-"); // stands for no name
    }
    expect_known("has the id", filter.plugin, plugins);
    expect_known("is of vendor", filter.vendor, vendors);
    expect_known("is for the device type", filter.device, devices);
}

// Keeps the implementations of an op that pass the filter, and their chains. `of_vendor`: the vendor's plugins.
void filter_op(json &op, const Filter &filter, const Names &of_vendor) {
    Names ids, types; // of the remaining implementations, and of their devices
    keep_if(op.at("implementations"), [&](const json &impl) {
        const bool is_vendors =
            is_or_empty(filter.vendor, impl.at("vendor")) || of_vendor.contains(words(impl.at("plugin")));
        return is_vendors && is_or_empty(filter.plugin, impl.at("plugin")) &&
               is_or_empty(filter.device, impl.at("device"));
    });
    for (const json &impl : op.at("implementations")) {
        ids.insert(impl.at("impl_id").get<std::string>());
        types.insert(words(impl.at("device")));
    }
    keep_if(op.at("chains"), [&](const json &chain) {
        const std::string device = words(chain.at("device"));
        return is_or_empty(filter.device, chain.at("device")) && types.contains(device.substr(0, device.find(':')));
    });
    // Chains that contain one of them; if the policy excludes it from all, the chains that serve in its place.
    json chains = op.at("chains");
    keep_if(chains, [&](const json &chain) {
        return std::any_of(chain.at("chain").begin(), chain.at("chain").end(),
                           [&](const json &id) { return ids.contains(id.get<std::string>()); });
    });
    if (!chains.empty()) {
        op["chains"] = std::move(chains);
    }
}

// Keeps the vendors of the remaining plugins and implementations.
void filter_vendors(json &document, const Filter &filter) {
    Names shown;
    for (const json &plugin : document.at("plugins")) {
        shown.insert(words(plugin.at("vendor")));
    }
    for (const json &op : document.at("ops")) {
        for (const json &impl : op.at("implementations")) {
            shown.insert(words(impl.at("vendor")));
        }
    }
    keep_if(document.at("vendors"), [&](const json &vendor) {
        return is_or_empty(filter.vendor, vendor.at("name")) &&
               std::any_of(shown.begin(), shown.end(),
                           [&](const std::string &name) { return cli::same_name(name, words(vendor.at("name"))); });
    });
}

} // namespace

json filtered(json document, const Filter &filter) {
    if (filter.plugin.empty() && filter.vendor.empty() && filter.device.empty()) {
        return document;
    }
    expect_known(document, filter);
    Names of_vendor; // plugins, by the vendor in their notes
    for (const json &plugin : document.at("plugins")) {
        if (is_or_empty(filter.vendor, plugin.at("vendor"))) {
            of_vendor.insert(words(plugin.at("id")));
        }
    }
    Names brought; // by the plugins that remain
    for (json &op : document.at("ops")) {
        filter_op(op, filter, of_vendor);
        for (const json &impl : op.at("implementations")) {
            brought.insert(words(impl.at("plugin")));
        }
    }
    keep_if(document.at("ops"), [](const json &op) { return !op.at("implementations").empty(); });
    keep_if(document.at("plugins"), [&](const json &plugin) {
        return is_or_empty(filter.plugin, plugin.at("id")) &&
               (is_or_empty(filter.vendor, plugin.at("vendor")) || brought.contains(words(plugin.at("id")))) &&
               (filter.device.empty() || plugin.at("status") != "loaded" || brought.contains(words(plugin.at("id"))));
    });
    filter_vendors(document, filter);
    return document;
}

json rejected_plugins(const json &document) {
    json plugins = json::array();
    for (const json &plugin : document.at("plugins")) {
        if (plugin.at("status") != "loaded") {
            plugins.push_back(plugin);
        }
    }
    return plugins;
}

std::map<std::string, std::string> idle_plugins(const json &document) {
    std::map<std::string, std::string> idle;
    std::set<std::string> serving;
    for (const json &op : document.at("ops")) {
        std::set<std::string> tried;
        for (const json &chain : op.at("chains")) {
            for (const json &id : chain.at("chain")) {
                tried.insert(words(id));
            }
        }
        for (const json &impl : op.at("implementations")) {
            idle.emplace(words(impl.at("plugin")), words(op.at("op")));
            if (tried.contains(words(impl.at("impl_id")))) {
                serving.insert(words(impl.at("plugin")));
            }
        }
    }
    std::erase_if(idle, [&](const auto &one) { return serving.contains(one.first); });
    return idle;
}

bool lacks_requested(const json &document) {
    const json &plugins = document.at("plugins");
    const json &problems = document.at("problems");
    return std::any_of(plugins.begin(), plugins.end(),
                       [](const json &plugin) { return plugin.at("requested") && plugin.at("status") != "loaded"; }) ||
           std::any_of(problems.begin(), problems.end(),
                       [](const json &problem) { return problem.at("requested") && !problem.at("taken"); });
}

bool repeats(const std::string &line, const json &document) {
    const auto ends_in = [&](const json &text) { return line.ends_with(cli::printable(text.get<std::string>())); };
    const auto names = [&](const json &text) { return line.find(text.get<std::string>()) != std::string::npos; };
    const json &plugins = document.at("plugins");
    const json &problems = document.at("problems");
    return std::any_of(plugins.begin(), plugins.end(),
                       [&](const json &plugin) {
                           const json &warnings = plugin.at("warnings");
                           return (plugin.at("status") != "loaded" && names(plugin.at("code")) &&
                                   ends_in(plugin.at("reason"))) ||
                                  std::any_of(warnings.begin(), warnings.end(), ends_in);
                       }) ||
           std::any_of(problems.begin(), problems.end(),
                       [&](const json &problem) { return ends_in(problem.at("message")); });
}

} // namespace opdock::plugin_ls
