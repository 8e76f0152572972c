// All sources of policy in their precedence, and what they come to for one op on one device.
//
// Precedence is item by item: the highest layer that has an item decides it alone, items never merge. Inside a layer a
// section for one device is above one for its type, and that above the items for everything. The orders of two ops are
// two items, and an op's order, from whatever layer, replaces the preferred order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/policy.hpp"

namespace opdock::core {

// What is in force for one op on one device, each part with the source that decided it.
struct OpPolicy {
    Order order;
    std::string order_source;
    SettingItems items;
    // What an implementation has to promise, as it is asked of every op and of this one.
    std::vector<Item<Contracts>> required;

    // The first that `other` does not ask for; null for none.
    const Item<Contracts> *required_beyond(const OpPolicy &other) const;
    bool retries_failed() const { return !value(settings::strict) && value(settings::retry_failed) > 0; }

    // The value in force. The setting has a built-in value, which holds where nobody set it.
    template<class T>
    const T &value(const SettingRecord<T> &setting) const {
        const std::optional<Item<T>> &item = items.*setting.member;
        return item ? item->value : *setting.built_in;
    }
    template<class T>
    std::string source(const SettingRecord<T> &setting) const {
        const std::optional<Item<T>> &item = items.*setting.member;
        return item ? item->source : built_in_source;
    }

    bool operator==(const OpPolicy &) const = default;
};

// Whether plugins must be trusted, and which are by their digest.
struct TrustPolicy {
    Trust mode = Trust::off;
    std::string source;
    const Digests *digests = nullptr; // null when no layer has a list; lives as long as the stack
    std::string digests_source;
};

// A value: copy it, replace a layer, publish the copy. A null layer has no items.
struct PolicyStack {
    PolicyPtr frozen;              // of a host that was frozen
    PolicyPtr enforce;             // `enforce:` of /etc/opdock/policy.yaml
    std::vector<PolicyPtr> scopes; // of the calling thread, innermost last
    PolicyPtr program;
    PolicyPtr environment;
    PolicyPtr config; // PLUGIN_CONFIG
    PolicyPtr system; // /etc/opdock/policy.yaml

    // `device_type` may be empty, and `index` negative, for what holds without a device or for a whole type.
    OpPolicy effective(std::string_view op, std::string_view device_type, std::int32_t index) const;

    // Whether strict holds where no device is in question: opening the host, checking names.
    bool strict() const;

    // Of the layers that are known when the host opens: not of scopes and the program.
    TrustPolicy trust() const;

    // Of the same layers; nothing when none of them has it.
    std::optional<Item<Vendors>> default_plugins() const;

    // Everything in force as one complete policy, to be handed to another thread and pushed there as a scope. Items
    // keep the sources they came from.
    Policy flattened() const;
};

// {"prefer", "strict", "allow_vendors", "deny_vendors", "per_op", "retry_failed", "fallback_to_cpu", "require",
// "require_per_op", "trust", "trusted_sha256", "default_plugins", "sources": {setting: where}}, and for the sections
// that differ from it "devices": {"cuda:0": {the same, without the last three}}. A list that is not set is null; the
// source of an op's order is under "per_op.OP", and that of its contracts under "require.OP".
nlohmann::json policy_json(const Policy &flattened);

} // namespace opdock::core
