#include "subjects.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "signature/other_names.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// The ids of the plugins in the modules, which are files or folders.
std::set<std::string> plugins_of(const json &document, const std::vector<std::string> &modules) {
    std::set<std::string> ids;
    for (const json &plugin : document.at("plugins")) {
        if (plugin.at("status") != "loaded") {
            continue;
        }
        const std::filesystem::path path = plugin.at("path").get<std::string>();
        for (std::filesystem::path place = path; place.has_relative_path(); place = place.parent_path()) {
            std::error_code not_there;
            if (std::any_of(modules.begin(), modules.end(), [&](const std::string &module) {
                    return std::filesystem::equivalent(place, module, not_there);
                })) {
                ids.insert(plugin.at("id").get<std::string>());
            }
        }
    }
    return ids;
}

// For a vendor's op, the only references are the plugin's own and those of plugins named on the command line: nobody
// else knows what the op computes, and any other plugin may claim to.
void find_reference(const json &op, const std::string &plugin, const std::set<std::string> &named, Subject &subject) {
    if (is_standard(subject.op)) {
        return;
    }
    for (const bool is_named : {true, false}) {
        for (const json &implementation : op.at("implementations")) {
            const auto owner = implementation.at("plugin").get<std::string>();
            if (subject.reference.empty() && implementation.at("kind") == "reference" &&
                implementation.at("device") == "cpu" && (is_named ? named.contains(owner) : owner == plugin)) {
                implementation.at("impl_id").get_to(subject.reference);
                subject.brings_reference = owner == plugin;
            }
        }
    }
}

Subject subject_of(const json &op, const json &implementation, const std::string &device) {
    Subject subject;
    op.at("op").get_to(subject.op);
    op.at("signature").get_to(subject.signature);
    implementation.at("impl_id").get_to(subject.impl_id);
    subject.device = device.empty() ? implementation.at("device").get<std::string>() : device;
    implementation.at("dtypes").get_to(subject.tuples);
    if (subject.tuples.empty()) {
        subject.tuples.emplace_back(); // for signatures without dtype variables
    }
    implementation.at("deterministic").get_to(subject.deterministic);
    implementation.at("batch_invariant").get_to(subject.batch_invariant);
    implementation.at("needs_contiguous").get_to(subject.needs_contiguous);
    implementation.at("alignment").get_to(subject.alignment);
    subject.has_knobs = !implementation.at("knobs").empty();
    return subject;
}

// Throws cli::Failure for a wanted name that does not exist.
void check_names(const char *option, const std::vector<std::string> &wanted, const std::set<std::string> &there,
                 const Request &request) {
    const std::vector<std::string> known(there.begin(), there.end());
    for (const std::string &name : wanted) {
        if (std::none_of(known.begin(), known.end(),
                         [&](const std::string &one) { return cli::same_name(one, name); })) {
            const std::string hint = std::string_view(option) == "op" ? core::other_name_hint(name) : "";
            throw cli::Failure(std::string("--") + option + " " + name + ": there is nothing to check with this name" +
                               (hint.empty() ? cli::did_you_mean(name, known) : hint) + "\n'plugin-ls" +
                               (request.files.size() == 1 ? " --modules " + request.files.front() : "") +
                               "' lists the available ones.");
        }
    }
}

} // namespace

std::vector<Subject> subjects_of(const json &document, const Request &request) {
    const std::set<std::string> plugins = plugins_of(document, request.files);
    const std::set<std::string> named = plugins_of(document, request.modules);
    const std::string kind = request.device.substr(0, request.device.find(':'));
    std::set<std::string> ops;
    std::set<std::string> impls;
    std::vector<Subject> subjects;
    for (const json &op : document.at("ops")) {
        const auto name = op.at("op").get<std::string>();
        for (const json &implementation : op.at("implementations")) {
            if (!request.files.empty() && !plugins.contains(implementation.at("plugin").get<std::string>())) {
                continue;
            }
            const auto id = implementation.at("impl_id").get<std::string>();
            ops.insert(name);
            impls.insert(id);
            if (cli::is_wanted(request.ops, name) && cli::is_wanted(request.impls, id) &&
                (kind.empty() || implementation.at("device") == kind)) {
                subjects.push_back(subject_of(op, implementation, request.device));
                find_reference(op, implementation.at("plugin").get<std::string>(), named, subjects.back());
            }
        }
    }
    check_names("op", request.ops, ops, request);
    check_names("impl", request.impls, impls, request);
    return subjects;
}

} // namespace opdock::plugin_check
