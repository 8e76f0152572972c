// What a host tells people and tools, as JSON. Only explain() asks plugins anything: describing opens none.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
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

std::vector<uint32_t> parse_tuple(std::string_view text, const Signature &signature) {
    std::vector<uint32_t> tuple;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view name = text.substr(begin, end - begin);
        const std::optional<uint32_t> dtype = parse_dtype(name);
        if (!dtype) {
            throw Error(OPDOCK_INVALID_ARGUMENT,
                        fmt::format("'{}' is no dtype; expected " OPDOCK_DTYPE_NAMES ", separated by commas", name));
        }
        tuple.push_back(*dtype);
        begin = end + 1;
    }
    const size_t variables = signature.dtype_variables.size();
    if (tuple.size() == 1 && variables > 1) {
        tuple.resize(variables, tuple.front()); // one for all
    }
    if (tuple.size() != variables) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("dtypes '{}': op '{}' has {} dtype variables", text, signature.name, variables));
    }
    return tuple;
}

// Why a plugin that was taken could not be opened later; null when it could, or was not tried.
const Rejection *rejection_since(const PluginRecord &plugin) {
    const DeferredPlugin::Outcome *outcome = plugin.deferred ? plugin.deferred->outcome() : nullptr;
    return outcome != nullptr && outcome->rejection ? &*outcome->rejection : nullptr;
}

// The build id of what lies at a plugin's path now, "" when that has none or is gone; nothing while it is what was
// taken.
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

// Each variable as it was when the host opened. What holds of the policy is in "policy", with its source.
json variables_json(const Environment &environment) {
    const auto settings = setting_names();
    json list = json::array();
    for (const VariableInfo &variable : variables()) {
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

} // namespace

json Host::describe() const {
    const Catalog &now = catalog();
    json plugins = json::array();
    for (const PluginRecord &plugin : now.plugins) {
        const Rejection *refused = rejection_since(plugin);
        std::vector<std::string> warnings = plugin.warnings;
        warnings.insert(warnings.end(), plugin.left_out.begin(), plugin.left_out.end());
        if (plugin.status == PluginRecord::Status::loaded) {
            const std::vector<std::string> wrong = configs_.of_plugin(now, plugin.id).warnings();
            warnings.insert(warnings.end(), wrong.begin(), wrong.end());
        }
        if (plugin.deferred && plugin.deferred->outcome() != nullptr && !plugin.deferred->outcome()->warning.empty()) {
            warnings.push_back(plugin.deferred->outcome()->warning);
        }
        const std::optional<std::string> replaced = replaced_by(plugin);
        if (replaced) {
            warnings.push_back(fmt::format("'{}' is not the file any more that this host took ({}): {}.\nOpen a host "
                                           "again, or start the process again, to use what is there.",
                                           plugin.path, build_text(plugin.build_id),
                                           replaced->empty() ? "it is gone, or has no build id"
                                                             : build_text(*replaced) + " lies there"));
        }
        plugins.push_back({{"id", plugin.id},
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
                           {"left_out", plugin.left_out}});
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
            devices.push_back(
                {{"type", provider->type}, {"problem", fmt::format("plugin '{}' counts 0 devices", provider->plugin)}});
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
                one["problem"] = "its provider does not say what it is";
            }
            devices.push_back(std::move(one));
        }
    }
    const PolicyStack policy = effective_policy();
    std::set<std::pair<std::string, std::string>> asked; // device types and commands
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

} // namespace

json Host::describe_op(const Catalog &now, const CatalogOp &op, const PolicyStack &policy) const {
    std::vector<const Implementation *> sorted;
    std::set<std::string> device_types; // folded
    for (const auto &implementation : op.implementations) {
        sorted.push_back(implementation.get());
        device_types.insert(folded(implementation->device));
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto *a, const auto *b) { return a->impl_id < b->impl_id; });
    json implementations = json::array();
    for (const Implementation *implementation : sorted) {
        const Availability availability = known_availability(now, *implementation);
        implementations.push_back(
            {{"impl_id", implementation->impl_id},
             {"kind", kind_name(implementation->kind)},
             {"vendor", implementation->vendor},
             {"priority", implementation->priority},
             {"device", implementation->device},
             {"dtypes", dtypes_json(*implementation, *implementation->form)},
             {"architectures", implementation->architectures},
             {"alignment", implementation->alignment},
             {"deterministic", (implementation->flags & OPDOCK_IMPL_DETERMINISTIC) != 0},
             {"batch_invariant", (implementation->flags & OPDOCK_IMPL_BATCH_INVARIANT) != 0},
             {"capture_safe", (implementation->flags & OPDOCK_IMPL_CAPTURE_SAFE) != 0},
             {"needs_contiguous", (implementation->required_flags & OPDOCK_IMPL_NEEDS_CONTIGUOUS) != 0},
             {"knobs", knobs_json(implementation->knobs)},
             {"available", answer_text(availability.answer)},
             {"reason", availability.reason},
             {"plugin", implementation->plugin}});
    }
    json chains = json::array();
    for (const std::string &type : device_types) {
        const std::optional<DLDevice> first = find_device(now.providers, type);
        if (!first) {
            continue; // of a type that nobody provides there is no device, and so no chain
        }
        const DLDevice device = *first;
        CatalogOp here = op; // with what is for this type alone: there may be many types
        std::erase_if(here.implementations, [&](const auto &one) { return !same_name(one->device, type); });
        // Tuples with the same chain share a row.
        std::vector<std::pair<std::vector<std::string>, json>> rows;
        std::map<std::vector<std::string>, size_t> row_of;
        for (const std::vector<uint32_t> &tuple : all_tuples(*op.signature)) {
            const Decision decision = decide(here, policy, listing_key(now, device, tuple), device);
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

namespace {

// The registered spelling of a device type that an implementation or a vendor names; "" for none.
std::string named_device_type(const Catalog &now, std::string_view type) {
    for (const auto &[name, op] : now.ops) {
        for (const auto &implementation : op->implementations) {
            if (same_name(implementation->device, type)) {
                return implementation->device;
            }
        }
    }
    for (const Vendor &vendor : now.vendors) {
        if (same_name(vendor.device_name, type)) {
            return vendor.device_name;
        }
    }
    return "";
}

// The type and index of a device of a type that plugins name, nobody provides and DLPack has no number for: no call
// can name it.
struct UnprovidedDevice {
    std::string type;
    int32_t index = 0;

    std::string text() const { return fmt::format("{}:{}", type, index); }
    std::string missing() const {
        return fmt::format("there is no device {}: no plugin provides devices of this type", text());
    }
};

std::optional<UnprovidedDevice> find_unprovided(const Catalog &now, std::string_view text) {
    const std::optional<SpelledDevice> spelled = split_device(text);
    if (!spelled || spelled->type.empty() || find_device(now.providers, text)) {
        return std::nullopt;
    }
    std::string type = named_device_type(now, spelled->type);
    return type.empty() ? std::nullopt : std::optional(UnprovidedDevice{std::move(type), spelled->index});
}

// Of a device that nobody provides: what the policy keeps is not available, by what its vendor's command says.
void drop_unprovided(const CatalogOp &op, const std::string &missing, const Devices &devices, Decision &decision) {
    for (const Kept &one : std::exchange(decision.chain, {})) {
        const std::string &command = op.implementations[one.id]->device_query;
        std::string reason = command.empty() ? "" : devices.query(command);
        if (reason.empty()) {
            reason = missing + (command.empty() ? ""
                                                : fmt::format(", though its vendor's device_query_command '{}' "
                                                              "says that there is one",
                                                              command));
        }
        decision.dropped.push_back({one.id, one.impl_id, Rule::availability, std::move(reason)});
    }
    std::sort(decision.dropped.begin(), decision.dropped.end(),
              [](const Dropped &a, const Dropped &b) { return std::tie(a.impl_id, a.id) < std::tie(b.impl_id, b.id); });
}

} // namespace

DLDevice Host::named_device(std::string_view text) const {
    const Catalog &now = catalog();
    if (const std::optional<UnprovidedDevice> unprovided = find_unprovided(now, text)) {
        throw Error(OPDOCK_INVALID_ARGUMENT, unprovided->missing());
    }
    const DLDevice device = parse_device(now.providers, text);
    if (const std::string missing = devices_.missing(device); !missing.empty()) {
        throw Error(OPDOCK_INVALID_ARGUMENT, missing);
    }
    return device;
}

json Host::explain(std::string_view op_name, const char *device_name, const char *dtypes,
                   const PolicyPtr &given) const {
    const Catalog &now = catalog();
    const CatalogOp &declared = now.declared(op(op_name).name); // an unknown one throws
    const std::string name = device_name != nullptr ? device_name : "cpu:0";
    const std::optional<UnprovidedDevice> unprovided = find_unprovided(now, name);
    constexpr DLDevice cpu{kDLCPU, 0};
    const DLDevice device = unprovided ? cpu : parse_device(now.providers, name); // the former for want of a number
    PolicyStack policy = effective_policy();
    if (given != nullptr) {
        policy.scopes.push_back(given);
    }
    std::optional<std::vector<uint32_t>> tuple;
    if (dtypes != nullptr) {
        tuple = parse_tuple(dtypes, *declared.signature);
    }
    Key key = key_for(now, device, tuple ? &*tuple : nullptr);
    // Of a device that is missing nothing is remembered: anybody can make up more.
    const std::string missing = unprovided ? unprovided->missing() : devices_.missing(device);
    // The policy decides first: code of an implementation that it leaves out is not run.
    Decision decision;
    if (unprovided) {
        key.device_type = unprovided->type;
        key.device_index = unprovided->index;
        key.any_architecture = true;
        decision = decide(declared, policy, key, device);
        drop_unprovided(declared, missing, devices_, decision);
    } else {
        decision = decide(declared, policy, key, device, missing);
        for (const Kept &one : decision.chain) {
            deployment_of(*declared.implementations[one.id], device).ask_availability();
        }
        decision = decide(declared, policy, key, device, missing);
    }
    json chain = json::array();
    json kept = json::array();
    for (const Kept &one : decision.chain) {
        chain.push_back(one.impl_id);
        kept.push_back({{"impl_id", one.impl_id}, {"rule", one.rule}});
    }
    json dropped = json::array();
    for (const Dropped &one : decision.dropped) {
        dropped.push_back({{"impl_id", one.impl_id}, {"rule", rule_name(one.rule)}, {"reason", one.reason}});
    }
    json explained = {{"op", declared.name},
                      {"device", unprovided ? unprovided->text() : device_text(now.providers, device)},
                      {"dtypes", tuple ? json(tuple_text(*tuple)) : json()},
                      {"strict", decision.policy.strict},
                      {"order", order_text(decision.policy.order)},
                      {"order_source", decision.policy.order_source},
                      {"chain", std::move(chain)},
                      {"kept", std::move(kept)},
                      {"dropped", std::move(dropped)}};
    if (decision.chain.empty() &&
        device.device_type != kDLCPU) { // never of an unprovided type: nobody copies its memory
        json on_cpu = json::array();
        const Decision there = decide(declared, policy, key_for(now, cpu, tuple ? &*tuple : nullptr), cpu);
        for (const Kept &one : there.chain) {
            on_cpu.push_back(one.impl_id);
        }
        if (!on_cpu.empty()) {
            const OpPolicy &of = decision.policy;
            explained["on_cpu"] = {{"chain", std::move(on_cpu)},
                                   {"follows", missing.empty() && of.falls_back_to_cpu && !of.strict &&
                                                   of.required_beyond(there.policy) == nullptr},
                                   {"source", of.fallback_source}};
        }
    }
    return explained;
}

} // namespace opdock::core
