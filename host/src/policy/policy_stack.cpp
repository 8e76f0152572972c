#include "policy/policy_stack.hpp"

#include <set>

#include <nlohmann/json.hpp>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

struct Layer {
    const Policy *policy;
    const char *name; // the source of items without a source of their own
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

// Keys of the sections that apply to a device, most specific first; "" is `everywhere`.
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

// The most specific item of the highest layer that has one. `get` returns a pointer to a section's item, or null.
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

template<class T, class Section>
std::optional<Item<T>> find_item(const std::vector<Layer> &layers, const SectionKeys &keys,
                                 std::optional<Item<T>> Section::*member) {
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

// Like find_item, but falls back to the built-in value.
template<class T>
std::optional<Item<T>> in_force(const std::vector<Layer> &layers, const SectionKeys &keys,
                                const SettingRecord<T> &setting) {
    auto item = find_item(layers, keys, setting.member);
    return item || !setting.built_in ? std::move(item) : Item<T>{*setting.built_in, built_in_source};
}

SettingItems items_in_force(const std::vector<Layer> &layers, const SectionKeys &keys) {
    SettingItems items;
    for_each_setting(
        [&]<class T>(const SettingRecord<T> &record) { items.*record.member = in_force(layers, keys, record); });
    return items;
}

PolicySection section_in_force(const std::vector<Layer> &layers, const SectionKeys &keys,
                               const std::set<std::string, std::less<>> &ops) {
    PolicySection section;
    static_cast<SettingItems &>(section) = items_in_force(layers, keys);
    section.require = find_item(layers, keys, &PolicySection::require);
    for (const std::string &op : ops) {
        if (auto order = find_item(layers, keys, op, &PolicySection::per_op)) {
            section.per_op.emplace(op, std::move(*order));
        }
        if (auto required = find_item(layers, keys, op, &PolicySection::require_per_op)) {
            section.require_per_op.emplace(op, std::move(*required));
        }
    }
    return section;
}

nlohmann::json shown(Kind kind) {
    return kind_name(kind);
}

nlohmann::json shown(Trust trust) {
    return trust_name(trust);
}

nlohmann::json shown(const Contracts &contracts) {
    return names_of(contracts);
}

template<class T>
nlohmann::json shown(const T &value) {
    return value;
}

template<class T>
void put(nlohmann::json &json, std::string_view name, const std::optional<Item<T>> &item) {
    json["sources"][std::string(name)] = item ? item->source : built_in_source;
    json[std::string(name)] = item ? shown(item->value) : nlohmann::json();
}

nlohmann::json section_json(const PolicySection &section) {
    nlohmann::json json = nlohmann::json::object();
    for_each_member([&](std::string_view name, auto member) { put(json, name, section.*member); });
    json["per_op"] = nlohmann::json::object();
    for (const auto &[op, order] : section.per_op) {
        nlohmann::json &tokens = json["per_op"][op] = nlohmann::json::array();
        for (const Token &token : order.value) {
            tokens.push_back(token.text());
        }
        json["sources"]["per_op." + op] = order.source;
    }
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
    result.items = items_in_force(layers, keys);
    if (auto order = find_item(layers, keys, op, &PolicySection::per_op)) {
        result.order = std::move(order->value);
        result.order_source = std::move(order->source);
    } else {
        result.order = preferred_order(result.value(settings::prefer));
        result.order_source = result.source(settings::prefer);
    }
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
    // Each section contains everything in force for its device, so that a higher layer's items for all devices keep
    // precedence over a lower layer's section. A section equal to that of its type is omitted; "cuda" sorts before
    // "cuda:0".
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
