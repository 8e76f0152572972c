#include "subjects.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// The ids of the plugins that the files are.
std::set<std::string> plugins_of(const json &document, const std::vector<std::string> &files) {
    std::set<std::string> ids;
    for (const json &plugin : document.at("plugins")) {
        for (const std::string &file : files) {
            std::error_code not_there;
            if (plugin.at("status") == "loaded" &&
                std::filesystem::equivalent(plugin.at("path").get<std::string>(), file, not_there)) {
                ids.insert(plugin.at("id").get<std::string>());
            }
        }
    }
    return ids;
}

Subject subject_of(const std::string &op, const json &implementation, const std::string &device) {
    Subject subject;
    subject.op = op;
    implementation.at("impl_id").get_to(subject.impl_id);
    subject.device = device.empty() ? implementation.at("device").get<std::string>() : device;
    implementation.at("dtypes").get_to(subject.tuples);
    if (subject.tuples.empty()) {
        subject.tuples.emplace_back(); // of signatures without dtype variables
    }
    implementation.at("deterministic").get_to(subject.deterministic);
    implementation.at("needs_contiguous").get_to(subject.needs_contiguous);
    implementation.at("alignment").get_to(subject.alignment);
    subject.has_knobs = !implementation.at("knobs").empty();
    return subject;
}

// Throws cli::Failure for a wanted name that is none of those there are.
void check_names(const char *option, const std::vector<std::string> &wanted, const std::set<std::string> &there) {
    const std::vector<std::string> known(there.begin(), there.end());
    for (const std::string &name : wanted) {
        if (std::none_of(known.begin(), known.end(),
                         [&](const std::string &one) { return cli::same_name(one, name); })) {
            throw cli::Failure(std::string("--") + option + " " + name + ": there is none of that name to check" +
                               cli::did_you_mean(name, known));
        }
    }
}

} // namespace

std::vector<Subject> subjects_of(const Host &host, const Request &request) {
    const json document = json::parse(host.describe());
    const std::set<std::string> plugins = plugins_of(document, request.files);
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
                subjects.push_back(subject_of(name, implementation, request.device));
            }
        }
    }
    check_names("op", request.ops, ops);
    check_names("impl", request.impls, impls);
    return subjects;
}

} // namespace opdock::plugin_check
