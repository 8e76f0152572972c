// Explains as JSON why an op is served as it is. Opens plugins for that and asks whether they are available.
#include <algorithm>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "host/host.hpp"
#include "signature/dtype.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

std::vector<uint32_t> parse_tuple(std::string_view text, const Signature &signature) {
    std::vector<uint32_t> tuple;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view name = text.substr(begin, end - begin);
        const std::optional<uint32_t> dtype = parse_dtype(name);
        if (!dtype) {
            throw Error(OPDOCK_INVALID_ARGUMENT,
                        fmt::format("'{}' is not a dtype; expected " OPDOCK_DTYPE_NAMES ", separated by commas", name));
        }
        tuple.push_back(*dtype);
        begin = end + 1;
    }
    const size_t variables = signature.dtype_variables.size();
    if (tuple.size() == 1 && variables > 1) {
        tuple.resize(variables, tuple.front()); // one dtype for all
    }
    if (tuple.size() != variables) {
        throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("dtypes '{}': op '{}' has {}", text, signature.name,
                                                         counted(variables, "dtype variable")));
    }
    return tuple;
}

// The registered spelling of a device type that an implementation or a vendor names; "" if there is none.
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

// A device whose type plugins name, but nobody provides and DLPack has no number for: no call can name
// it.
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

// For a device that nobody provides: drops what the policy keeps as not available, quoting its vendor's command.
void drop_unprovided(const CatalogOp &op, const std::string &missing, const Devices &devices, Decision &decision) {
    for (const Kept &one : std::exchange(decision.chain, {})) {
        const std::string &command = op.implementations[one.id]->device_query;
        std::string reason = command.empty() ? "" : devices.query(command);
        if (reason.empty()) {
            reason =
                missing +
                (command.empty()
                     ? ""
                     : fmt::format(", though its vendor's device_query_command '{}' says that the device is present",
                                   command));
        }
        decision.dropped.push_back({one.id, one.impl_id, Rule::availability, std::move(reason)});
    }
    std::sort(decision.dropped.begin(), decision.dropped.end(),
              [](const Dropped &a, const Dropped &b) { return std::tie(a.impl_id, a.id) < std::tie(b.impl_id, b.id); });
}

// The question that explain() answers.
struct Question {
    const CatalogOp &op;
    const PolicyStack &policy;
    std::optional<std::vector<uint32_t>> dtypes; // none: any dtypes
    std::optional<UnprovidedDevice> unprovided;
    DLDevice device; // the CPU if nobody provides the device, for want of a number

    Key key(const CallHost &host, DLDevice on) const {
        return host.key_for(host.catalog(), on, dtypes ? &*dtypes : nullptr);
    }
};

// `missing`: why the device does not exist. The policy decides first: code of an implementation that
// it leaves out is not run.
Decision decision_for(const CallHost &host, const Question &asked, const std::string &missing) {
    Key key = asked.key(host, asked.device);
    if (asked.unprovided) {
        key.device_type = asked.unprovided->type;
        key.device_index = asked.unprovided->index;
        key.any_architecture = true;
        Decision decision = host.decide(asked.op, asked.policy, key, asked.device);
        drop_unprovided(asked.op, missing, host.devices(), decision);
        return decision;
    }
    for (const Kept &one : host.decide(asked.op, asked.policy, key, asked.device, missing).chain) {
        host.deployment_of(*asked.op.implementations[one.id], asked.device).ask_availability();
    }
    return host.decide(asked.op, asked.policy, key, asked.device, missing);
}

// The chain on the CPU for an op that nothing serves on the device; null if it is empty.
json on_cpu(const CallHost &host, const Question &asked, const OpPolicy &policy, bool is_there) {
    constexpr DLDevice cpu{kDLCPU, 0};
    const Decision decision = host.decide(asked.op, asked.policy, asked.key(host, cpu), cpu);
    json chain = json::array();
    for (const Kept &one : decision.chain) {
        chain.push_back(one.impl_id);
    }
    if (chain.empty()) {
        return nullptr;
    }
    const bool follows = is_there && policy.value(settings::fallback_to_cpu) && !policy.value(settings::strict) &&
                         policy.required_beyond(decision.policy) == nullptr;
    return {{"chain", std::move(chain)}, {"follows", follows}, {"source", policy.source(settings::fallback_to_cpu)}};
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
    const CatalogOp &declared = now.declared(op(op_name).name); // throws for an unknown op
    const std::string name = device_name != nullptr ? device_name : "cpu:0";
    PolicyStack policy = effective_policy();
    if (given != nullptr) {
        policy.scopes.push_back(given);
    }
    Question asked{declared, policy, {}, find_unprovided(now, name), {kDLCPU, 0}};
    if (!asked.unprovided) {
        asked.device = parse_device(now.providers, name);
    }
    if (dtypes != nullptr) {
        asked.dtypes = parse_tuple(dtypes, *declared.signature);
    }
    // Nothing is cached about a missing device: anybody can make up more of them.
    const std::string missing = asked.unprovided ? asked.unprovided->missing() : devices_.missing(asked.device);
    const Decision decision = decision_for(*this, asked, missing);
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
                      {"device", asked.unprovided ? asked.unprovided->text() : devices_.text(asked.device)},
                      {"dtypes", asked.dtypes ? json(tuple_text(*asked.dtypes)) : json()},
                      {"strict", decision.policy.value(settings::strict)},
                      {"order", order_text(decision.policy.order)},
                      {"order_source", decision.policy.order_source},
                      {"chain", std::move(chain)},
                      {"kept", std::move(kept)},
                      {"dropped", std::move(dropped)}};
    if (decision.chain.empty() && asked.device.device_type != kDLCPU) { // without a provider, memory cannot be copied
        if (json there = on_cpu(*this, asked, decision.policy, missing.empty()); !there.is_null()) {
            explained["on_cpu"] = std::move(there);
        }
    }
    return explained;
}

} // namespace opdock::core
