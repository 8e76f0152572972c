// The state of a host as JSON, for people and tools. Opens and calls no plugin.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include "host/host.hpp"
#include "inspect/elf_notes.hpp"
#include "opdock_version.hpp"
#include "signature/dtype.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

const char *status_text(PluginRecord::Status status) {
    switch (status) {
    case PluginRecord::Status::loaded:
        return "loaded";
    case PluginRecord::Status::rejected:
        return "rejected";
    default:
        return "skipped";
    }
}

const char *answer_text(Availability::Answer answer) {
    switch (answer) {
    case Availability::yes:
        return "yes";
    case Availability::no:
        return "no";
    default:
        return "unknown";
    }
}

json dtypes_json(const Implementation &implementation, const Signature &signature) {
    json list = json::array();
    for (const auto &tuple : implementation.dtypes.empty() ? all_tuples(signature) : implementation.dtypes) {
        list.push_back(tuple_text(tuple));
    }
    return list;
}

// The reason why an accepted plugin could not be opened later; null if it could or was not tried.
const Rejection *rejection_since(const PluginRecord &plugin) {
    const DeferredPlugin::Outcome *outcome = plugin.deferred ? plugin.deferred->outcome() : nullptr;
    return outcome != nullptr && outcome->rejection ? &*outcome->rejection : nullptr;
}

// The build id of the file now at a plugin's path, "" if it has none or is gone; nothing if the file
// is still the one that was accepted.
std::optional<std::string> replaced_by(const PluginRecord &plugin) {
    struct stat status = {};
    if (plugin.status != PluginRecord::Status::loaded || plugin.file == FileIdentity{}) {
        return std::nullopt;
    }
    if (::stat(plugin.path.c_str(), &status) != 0) {
        return "";
    }
    return has_same_content(identity_of(status), plugin.file) ? std::nullopt
                                                              : std::optional(read_build_id(plugin.path));
}

// Each variable as it was when the host opened. The policy in force is in "policy", with its sources.
json variables_json(const Environment &environment) {
    const auto settings = setting_names();
    json list = json::array();
    for (const VariableInfo &variable : all_variables) {
        const std::string *value = environment.find(variable.id);
        const bool is_policy = variable.id == Variable::trust || variable.id == Variable::default_plugins ||
                               std::any_of(settings.begin(), settings.end(),
                                           [&](std::string_view name) { return same_name(name, variable.stem); });
        list.push_back({{"name", environment.name(variable.id)},
                        {"value", value != nullptr ? json(*value) : json(nullptr)},
                        {"default", variable.fallback},
                        {"is_policy", is_policy}});
    }
    return list;
}

json plugin_json(const PluginRecord &plugin, const std::vector<std::string> &of_tune_file) {
    const Rejection *refused = rejection_since(plugin);
    std::vector<std::string> warnings = plugin.warnings;
    warnings.insert(warnings.end(), plugin.left_out.begin(), plugin.left_out.end());
    warnings.insert(warnings.end(), of_tune_file.begin(), of_tune_file.end());
    if (plugin.deferred && plugin.deferred->outcome() != nullptr && !plugin.deferred->outcome()->warning.empty()) {
        warnings.push_back(plugin.deferred->outcome()->warning);
    }
    const std::optional<std::string> replaced = replaced_by(plugin);
    if (replaced) {
        warnings.push_back(fmt::format("'{}' is no longer the file that this host loaded ({}): {}.\nOpen a new host, "
                                       "or restart the process, to use the present file.",
                                       plugin.path, build_text(plugin.build_id),
                                       replaced->empty() ? "it is gone, or has no build id"
                                                         : build_text(*replaced) + " is there now"));
    }
    return {{"id", plugin.id},
            {"version", plugin.version},
            {"vendor", plugin.vendor},
            {"path", plugin.path},
            {"build_id", plugin.build_id},
            {"replaced_by", replaced ? json(*replaced) : json()},
            {"requested", plugin.requested},
            {"status", status_text(refused ? PluginRecord::Status::rejected : plugin.status)},
            {"code", refused ? code_text(refused->code) : plugin.code},
            {"reason", refused ? refused->message : plugin.reason},
            {"warnings", warnings},
            {"left_out", plugin.left_out}};
}

} // namespace

json Host::describe() const {
    const Catalog &now = catalog();
    json plugins = json::array();
    for (const PluginRecord &plugin : now.plugins) {
        plugins.push_back(plugin_json(plugin, plugin.status == PluginRecord::Status::loaded
                                                  ? configs_.of_plugin(now, plugin.id).warnings()
                                                  : std::vector<std::string>()));
    }
    json paths = json::array();
    for (const SearchPath &path : paths_) {
        paths.push_back({{"path", path.path}, {"origin", path.origin}});
    }
    json problems = json::array();
    for (const SearchProblem &problem : problems_) {
        problems.push_back({{"message", problem.message},
                            {"requested", problem.requested},
                            {"taken", problem.taken},
                            {"code", problem.code}});
    }
    json vendors = json::array();
    for (const Vendor &vendor : now.vendors) {
        vendors.push_back({{"name", vendor.name},
                           {"device_name", vendor.device_name},
                           {"dispatch_key", vendor.dispatch_key},
                           {"device_query_command", vendor.device_query_command}});
    }
    const PolicyStack policy = effective_policy();
    json ops = json::array();
    for (const auto &[name, op] : now.ops) {
        ops.push_back(describe_op(now, *op, policy));
    }
    return {{"schema", "opdock.plugin-ls/1"},
            {"host", {{"version", version}, {"abi", {OPDOCK_ABI_MAJOR, OPDOCK_ABI_MINOR}}}},
            {"policy", policy_json(policy.flattened())},
            {"variables", variables_json(environment_)},
            {"paths", std::move(paths)},
            {"problems", std::move(problems)},
            {"plugins", std::move(plugins)},
            {"vendors", std::move(vendors)},
            {"ops", std::move(ops)}};
}

json Host::describe_devices() const {
    json devices = json::array();
    const Catalog &now = catalog();
    for (const auto &provider : now.providers) {
        const DeviceCount count = devices_.count(*provider);
        if (!count.reason.empty()) {
            devices.push_back({{"type", provider->type}, {"problem", count.reason}});
        } else if (count.count == 0) {
            devices.push_back({{"type", provider->type},
                               {"problem", fmt::format("plugin '{}' reports 0 devices", provider->plugin)}});
        }
        for (int32_t i = 0; i < count.count; ++i) {
            const DLDevice device{static_cast<DLDeviceType>(provider->table.dl_device_type), i};
            json one = {{"device", device_text(now.providers, device)}, {"type", provider->type}};
            if (const opdock_device_properties *properties = devices_.properties(device)) {
                one.update({{"name", properties->name},
                            {"architecture", properties->architecture},
                            {"driver", properties->driver},
                            {"uuid", properties->uuid},
                            {"memory", properties->memory},
                            {"compute_units", properties->compute_units},
                            {"warp_size", properties->warp_size},
                            {"shared_memory", properties->shared_memory},
                            {"cache", properties->cache}});
            } else {
                one["problem"] = "its provider does not identify it";
            }
            devices.push_back(std::move(one));
        }
    }
    const PolicyStack policy = effective_policy();
    std::set<std::pair<std::string, std::string>> asked; // (device type, command) pairs
    for (const auto &[name, op] : now.ops) {
        for (const auto &implementation : op->implementations) {
            const std::string &command = implementation->device_query;
            if (command.empty() || find_provider(now.providers, implementation->device) != nullptr ||
                !asked.emplace(folded(implementation->device), command).second) {
                continue;
            }
            json one = {{"type", implementation->device}, {"device_query_command", command}};
            const std::string refusal =
                refusal_of_vendor(*implementation, policy.effective(op->name, implementation->device, 0));
            if (const std::string reason = refusal.empty() ? devices_.query(command) : refusal; !reason.empty()) {
                one["problem"] = reason;
            }
            devices.push_back(std::move(one));
        }
    }
    return devices;
}

namespace {

json knobs_json(const std::vector<Knob> &knobs) {
    json list = json::array();
    for (const Knob &knob : knobs) {
        json one = {{"name", knob.name}, {"doc", knob.doc}};
        if (knob.type == OPDOCK_KNOB_CHOICE) {
            one.update({{"type", "choice"},
                        {"choices", knob.choices},
                        {"default", knob.choices.at(static_cast<size_t>(knob.default_value))}});
        } else {
            one.update({{"type", knob.type == OPDOCK_KNOB_BOOL ? "bool" : "int"},
                        {"minimum", knob.minimum},
                        {"maximum", knob.maximum},
                        {"default", knob.default_value}});
        }
        list.push_back(std::move(one));
    }
    return list;
}

json implementation_json(const Implementation &implementation, const Availability &availability) {
    return {{"impl_id", implementation.impl_id},
            {"kind", kind_name(implementation.kind)},
            {"vendor", implementation.vendor},
            {"priority", implementation.priority},
            {"device", implementation.device},
            {"dtypes", dtypes_json(implementation, *implementation.form)},
            {"architectures", implementation.architectures},
            {"alignment", implementation.alignment},
            {"deterministic", (implementation.flags & OPDOCK_IMPL_DETERMINISTIC) != 0},
            {"batch_invariant", (implementation.flags & OPDOCK_IMPL_BATCH_INVARIANT) != 0},
            {"capture_safe", (implementation.flags & OPDOCK_IMPL_CAPTURE_SAFE) != 0},
            {"needs_contiguous", (implementation.required_flags & OPDOCK_IMPL_NEEDS_CONTIGUOUS) != 0},
            {"knobs", knobs_json(implementation.knobs)},
            {"available", answer_text(availability.answer)},
            {"reason", availability.reason},
            {"plugin", implementation.plugin}};
}

// Adds the chains of an op on devices of type `type`; `device` is one of them.
void add_chains(const CallHost &host, const CatalogOp &op, const std::string &type, DLDevice device,
                const PolicyStack &policy, json &chains) {
    CatalogOp here = op; // only implementations for this type: there may be many types
    std::erase_if(here.implementations, [&](const auto &one) { return !same_name(one->device, type); });
    // Dtype tuples with the same chain share a row.
    std::vector<std::pair<std::vector<std::string>, json>> rows;
    std::map<std::vector<std::string>, size_t> row_of;
    for (const std::vector<uint32_t> &tuple : all_tuples(*op.signature)) {
        const Decision decision = host.decide(here, policy, host.listing_key(host.catalog(), device, tuple), device);
        std::vector<std::string> chain;
        for (const Kept &kept : decision.chain) {
            chain.push_back(kept.impl_id);
        }
        if (chain.empty()) {
            continue;
        }
        const auto [row, is_new] = row_of.try_emplace(chain, rows.size());
        if (is_new) {
            rows.emplace_back(std::move(chain), json::array());
        }
        rows[row->second].second.push_back(tuple_text(tuple));
    }
    for (auto &[chain, dtypes] : rows) {
        chains.push_back({{"device", type}, {"dtypes", std::move(dtypes)}, {"chain", chain}});
    }
}

} // namespace

json Host::describe_op(const Catalog &now, const CatalogOp &op, const PolicyStack &policy) const {
    std::vector<const Implementation *> sorted;
    std::set<std::string> device_types; // case-folded
    for (const auto &implementation : op.implementations) {
        sorted.push_back(implementation.get());
        device_types.insert(folded(implementation->device));
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto *a, const auto *b) { return a->impl_id < b->impl_id; });
    json implementations = json::array();
    for (const Implementation *implementation : sorted) {
        implementations.push_back(implementation_json(*implementation, known_availability(now, *implementation)));
    }
    json chains = json::array();
    for (const std::string &type : device_types) {
        const std::optional<DLDevice> first = find_device(now.providers, type);
        if (!first) {
            continue; // without a provider there is no device, hence no chain
        }
        add_chains(*this, op, type, *first, policy, chains);
    }
    return {{"op", op.name},
            {"signature", op.signature->text},
            {"implementations", std::move(implementations)},
            {"chains", std::move(chains)}};
}

Availability Host::known_availability(const Catalog &now, const Implementation &implementation) const {
    if (const DeferredPlugin *plugin = implementation.deferred) {
        const DeferredPlugin::Outcome *outcome = plugin->outcome();
        if (outcome != nullptr && outcome->rejection) {
            return {Availability::no, plugin->unavailable(*outcome->rejection)};
        }
    }
    if (!implementation.has_conditions()) {
        return {Availability::yes, {}};
    }
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    Availability answer;
    constexpr int32_t lowest = std::numeric_limits<int32_t>::min();
    for (auto one = book.deployments.lower_bound({&implementation, {lowest, lowest}});
         one != book.deployments.end() && one->first.first == &implementation; ++one) {
        const auto &[key, deployment] = *one;
        if (same_name(device_type(now.providers, key.second.first), implementation.device)) {
            const Availability here = deployment->known_availability();
            if (here.answer == Availability::yes || answer.answer == Availability::unknown) {
                answer = here;
            }
        }
    }
    return answer;
}

} // namespace opdock::core
