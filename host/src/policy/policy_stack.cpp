#include "policy/policy_stack.hpp"

#include <set>

#include <nlohmann/json.hpp>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

struct Layer {
    const Policy *policy;
    const char *name; // the source of items that have none of their own
};

std::vector<Layer> layers_of(const PolicyStack &stack) {
    std::vector<Layer> layers;
    bool ended = false;
    const auto add = [&](const PolicyPtr &policy, const char *name) {
        if (policy && !ended) {
            layers.push_back({policy.get(), name});
            ended = policy->complete;
        }
    };
    if (stack.frozen) {
        layers.push_back({stack.frozen.get(), "frozen"});
    }
    if (stack.enforce) {
        layers.push_back({stack.enforce.get(), "enforce"});
    }
    const std::vector<PolicyPtr> innermost_first(stack.scopes.rbegin(), stack.scopes.rend());
    for (const PolicyPtr &scope : innermost_first) {
        add(scope, "scope");
    }
    add(stack.program, "program");
    add(stack.environment, "environment");
    add(stack.config, "config");
    add(stack.system, "system");
    return layers;
}

// The sections that concern a device, most specific first; "" is `everywhere`.
using SectionKeys = std::vector<std::string>;

SectionKeys keys_of(std::string_view device_type, std::int32_t index) {
    SectionKeys keys;
    const std::string type = folded(device_type);
    if (!type.empty() && index >= 0) {
        keys.push_back(type + ":" + std::to_string(index));
    }
    if (!type.empty()) {
        keys.push_back(type);
    }
    keys.emplace_back();
    return keys;
}

SectionKeys keys_of(const std::string &section) {
    const std::size_t colon = section.find(':');
    if (colon == std::string::npos) {
        return section.empty() ? SectionKeys{""} : SectionKeys{section, ""};
    }
    return {section, section.substr(0, colon), ""};
}

const PolicySection *section_of(const Policy &policy, const std::string &key) {
    if (key.empty()) {
        return &policy.everywhere;
    }
    const auto found = policy.devices.find(key);
    return found == policy.devices.end() ? nullptr : &found->second;
}

// The highest layer's most specific item. `get` returns a pointer to a section's item, or null.
template<class T, class Get>
std::optional<Item<T>> find_item(const std::vector<Layer> &layers, const SectionKeys &keys, Get get) {
    for (const Layer &layer : layers) {
        for (const std::string &key : keys) {
            const PolicySection *section = section_of(*layer.policy, key);
            if (const Item<T> *item = section != nullptr ? get(*section) : nullptr) {
                return Item<T>{item->value, item->source.empty() ? layer.name : item->source};
            }
        }
    }
    return std::nullopt;
}

template<class T>
std::optional<Item<T>> find_item(const std::vector<Layer> &layers, const SectionKeys &keys,
                                 std::optional<Item<T>> PolicySection::*member) {
    return find_item<T>(layers, keys,
                        [&](const PolicySection &section) { return section.*member ? &*(section.*member) : nullptr; });
}

template<class T>
using PerOp = std::map<std::string, Item<T>, std::less<>>;

template<class T>
std::optional<Item<T>> find_item(const std::vector<Layer> &layers, const SectionKeys &keys, std::string_view op,
                                 PerOp<T> PolicySection::*member) {
    return find_item<T>(layers, keys, [&](const PolicySection &section) -> const Item<T> * {
        const auto found = (section.*member).find(op);
        return found == (section.*member).end() ? nullptr : &found->second;
    });
}

PolicySection section_in_force(const std::vector<Layer> &layers, const SectionKeys &keys,
                               const std::set<std::string, std::less<>> &ops) {
    PolicySection section;
    section.prefer = find_item(layers, keys, &PolicySection::prefer);
    section.strict = find_item(layers, keys, &PolicySection::strict);
    section.allow_vendors = find_item(layers, keys, &PolicySection::allow_vendors);
    section.deny_vendors = find_item(layers, keys, &PolicySection::deny_vendors);
    section.retry_failed = find_item(layers, keys, &PolicySection::retry_failed);
    section.fallback_to_cpu = find_item(layers, keys, &PolicySection::fallback_to_cpu);
    section.require = find_item(layers, keys, &PolicySection::require);
    for (const std::string &op : ops) {
        if (auto order = find_item(layers, keys, op, &PolicySection::per_op)) {
            section.per_op.emplace(op, std::move(*order));
        }
        if (auto required = find_item(layers, keys, op, &PolicySection::require_per_op)) {
            section.require_per_op.emplace(op, std::move(*required));
        }
    }
    if (!section.prefer) {
        section.prefer = Item<Kind>{Kind::default_, built_in_source};
    }
    if (!section.strict) {
        section.strict = Item<bool>{false, built_in_source};
    }
    if (!section.retry_failed) {
        section.retry_failed = Item<double>{default_retry_seconds, built_in_source};
    }
    if (!section.fallback_to_cpu) {
        section.fallback_to_cpu = Item<bool>{false, built_in_source};
    }
    return section;
}

template<class T>
void put(nlohmann::json &json, const char *name, const std::optional<Item<T>> &item) {
    json["sources"][name] = item ? item->source : built_in_source;
    if constexpr (std::is_same_v<T, Kind>) {
        json[name] = kind_name(item ? item->value : Kind::default_);
    } else if constexpr (std::is_same_v<T, Trust>) {
        json[name] = trust_name(item ? item->value : Trust::off);
    } else if constexpr (std::is_same_v<T, bool>) {
        json[name] = item && item->value;
    } else if constexpr (std::is_same_v<T, double>) {
        json[name] = item ? item->value : default_retry_seconds;
    } else if constexpr (std::is_same_v<T, Contracts>) {
        json[name] = item ? nlohmann::json(names_of(item->value)) : nlohmann::json();
    } else {
        json[name] = item ? nlohmann::json(item->value) : nlohmann::json();
    }
}

nlohmann::json section_json(const PolicySection &section) {
    nlohmann::json json = nlohmann::json::object();
    put(json, "prefer", section.prefer);
    put(json, "strict", section.strict);
    put(json, "allow_vendors", section.allow_vendors);
    put(json, "deny_vendors", section.deny_vendors);
    put(json, "retry_failed", section.retry_failed);
    put(json, "fallback_to_cpu", section.fallback_to_cpu);
    json["per_op"] = nlohmann::json::object();
    for (const auto &[op, order] : section.per_op) {
        nlohmann::json &tokens = json["per_op"][op] = nlohmann::json::array();
        for (const Token &token : order.value) {
            tokens.push_back(token.text());
        }
        json["sources"]["per_op." + op] = order.source;
    }
    put(json, "require", section.require);
    json["require_per_op"] = nlohmann::json::object();
    for (const auto &[op, contracts] : section.require_per_op) {
        json["require_per_op"][op] = names_of(contracts.value);
        json["sources"]["require." + op] = contracts.source;
    }
    return json;
}

} // namespace

OpPolicy PolicyStack::effective(std::string_view op, std::string_view device_type, std::int32_t index) const {
    const std::vector<Layer> layers = layers_of(*this);
    const SectionKeys keys = keys_of(device_type, index);
    OpPolicy result;
    if (auto order = find_item(layers, keys, op, &PolicySection::per_op)) {
        result.order = std::move(order->value);
        result.order_source = std::move(order->source);
    } else {
        const auto prefer = find_item(layers, keys, &PolicySection::prefer);
        result.order = preferred_order(prefer ? prefer->value : Kind::default_);
        result.order_source = prefer ? prefer->source : built_in_source;
    }
    const auto strict = find_item(layers, keys, &PolicySection::strict);
    result.strict = strict && strict->value;
    result.strict_source = strict ? strict->source : built_in_source;
    result.allow_source = result.deny_source = built_in_source;
    if (auto allow = find_item(layers, keys, &PolicySection::allow_vendors)) {
        result.allow = std::move(allow->value);
        result.allow_source = std::move(allow->source);
    }
    if (auto deny = find_item(layers, keys, &PolicySection::deny_vendors)) {
        result.deny = std::move(deny->value);
        result.deny_source = std::move(deny->source);
    }
    const auto retry = find_item(layers, keys, &PolicySection::retry_failed);
    result.retry_seconds = retry ? retry->value : default_retry_seconds;
    result.retry_source = retry ? retry->source : built_in_source;
    const auto fallback = find_item(layers, keys, &PolicySection::fallback_to_cpu);
    result.falls_back_to_cpu = fallback && fallback->value;
    result.fallback_source = fallback ? fallback->source : built_in_source;
    for (auto &required : {find_item(layers, keys, &PolicySection::require),
                           find_item(layers, keys, op, &PolicySection::require_per_op)}) {
        if (required && required->value.flags != 0) {
            result.required.push_back(*required);
        }
    }
    return result;
}

const Item<Contracts> *OpPolicy::required_beyond(const OpPolicy &other) const {
    std::uint32_t asked = 0;
    for (const Item<Contracts> &one : other.required) {
        asked |= one.value.flags;
    }
    for (const Item<Contracts> &one : required) {
        if ((one.value.flags & ~asked) != 0) {
            return &one;
        }
    }
    return nullptr;
}

bool PolicyStack::strict() const {
    const auto strict = find_item(layers_of(*this), keys_of(""), &PolicySection::strict);
    return strict && strict->value;
}

TrustPolicy PolicyStack::trust() const {
    TrustPolicy result;
    result.source = result.digests_source = built_in_source;
    bool is_set = false;
    for (const PolicyPtr &layer : {enforce, environment, config, system}) {
        if (layer && layer->trust && !is_set) {
            result.mode = layer->trust->value;
            result.source = layer->trust->source;
            is_set = true;
        }
        if (layer && layer->trusted_sha256 && result.digests == nullptr) {
            result.digests = &layer->trusted_sha256->value;
            result.digests_source = layer->trusted_sha256->source;
        }
    }
    return result;
}

std::optional<Item<Vendors>> PolicyStack::default_plugins() const {
    for (const PolicyPtr &layer : {enforce, environment, config, system}) {
        if (layer && layer->default_plugins) {
            return layer->default_plugins;
        }
    }
    return std::nullopt;
}

Policy PolicyStack::flattened() const {
    const std::vector<Layer> layers = layers_of(*this);
    std::set<std::string, std::less<>> ops;
    std::set<std::string, std::less<>> devices;
    const auto collect = [&](const PolicySection &section) {
        for (const auto &[op, order] : section.per_op) {
            ops.insert(op);
        }
        for (const auto &[op, contracts] : section.require_per_op) {
            ops.insert(op);
        }
    };
    for (const Layer &layer : layers) {
        collect(layer.policy->everywhere);
        for (const auto &[device, section] : layer.policy->devices) {
            devices.insert(device);
            collect(section);
        }
    }
    Policy policy;
    policy.complete = true;
    const TrustPolicy in_force = trust();
    policy.trust = Item<Trust>{in_force.mode, in_force.source};
    if (in_force.digests != nullptr) {
        policy.trusted_sha256 = Item<Digests>{*in_force.digests, in_force.digests_source};
    }
    policy.default_plugins = default_plugins();
    policy.everywhere = section_in_force(layers, keys_of(""), ops);
    // A section states everything that is in force there, so that a higher layer's items for all devices keep their
    // place above a lower layer's section. One that says what its type says already is left out; "cuda" comes before
    // "cuda:0" in the set.
    for (const std::string &device : devices) {
        PolicySection section = section_in_force(layers, keys_of(device), ops);
        const PolicySection *above = &policy.everywhere;
        if (const std::size_t colon = device.find(':'); colon != std::string::npos) {
            if (const PolicySection *of_type = section_of(policy, device.substr(0, colon))) {
                above = of_type;
            }
        }
        if (section != *above) {
            policy.devices.emplace(device, std::move(section));
        }
    }
    return policy;
}

nlohmann::json policy_json(const Policy &flattened) {
    nlohmann::json json = section_json(flattened.everywhere);
    put(json, "trust", flattened.trust);
    put(json, "trusted_sha256", flattened.trusted_sha256);
    put(json, "default_plugins", flattened.default_plugins);
    for (const auto &[device, section] : flattened.devices) {
        json["devices"][device] = section_json(section);
    }
    return json;
}

} // namespace opdock::core
