// All sources of policy in order of precedence, and the resulting policy for one op on one device.
//
// Precedence is item by item: the highest layer that has an item determines it alone; items are never merged. Within a
// layer a section for one device precedes one for its type, which precedes the items for all devices. The orders of two
// ops are separate items, and an op's order, from any layer, replaces the preferred order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/policy.hpp"

namespace opdock::core {

// The policy in force for one op on one device, each item with its source.
struct OpPolicy {
    Order order;
    std::string order_source;
    SettingItems items;
    // Contracts required of implementations, for every op and for this one.
    std::vector<Item<Contracts>> required;

    // The first requirement that `other` lacks; null if there is none.
    const Item<Contracts> *required_beyond(const OpPolicy &other) const;
    bool retries_failed() const { return !value(settings::strict) && value(settings::retry_failed) > 0; }

    // The value in force. The setting must have a built-in value, which applies if nobody set it.
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

// The trust mode, and the digests of trusted plugins.
struct TrustPolicy {
    Trust mode = Trust::off;
    std::string source;
    const Digests *digests = nullptr; // null if no layer has a list; lives as long as the stack
    std::string digests_source;
};

// A value: copy it, replace a layer, publish the copy. A null layer has no items.
struct PolicyStack {
    PolicyPtr frozen;              // of a frozen host
    PolicyPtr enforce;             // `enforce:` of /etc/opdock/policy.yaml
    std::vector<PolicyPtr> scopes; // of the calling thread, innermost last
    PolicyPtr program;
    PolicyPtr environment;
    PolicyPtr config; // PLUGIN_CONFIG
    PolicyPtr system; // /etc/opdock/policy.yaml

    // `device_type` may be empty and `index` negative, for a policy without a device or for a whole type.
    OpPolicy effective(std::string_view op, std::string_view device_type, std::int32_t index) const;

    // Strict mode where no device is involved: opening the host, checking names.
    bool strict() const;

    // Trust settings of the layers that exist when the host opens: not of scopes or the program's policy.
    TrustPolicy trust() const;

    // Default plugins from the same layers; nullopt if none of them has the item.
    std::optional<Item<Vendors>> default_plugins() const;

    // Everything in force as one complete policy, which can be passed to another thread and pushed there as a scope.
    // Items keep their original sources.
    Policy flattened() const;
};

// {"prefer", "strict", "allow_vendors", "deny_vendors", "per_op", "retry_failed", "fallback_to_cpu", "require",
// "require_per_op", "trust", "trusted_sha256", "default_plugins", "sources": {setting: source}}, and for sections that
// differ from it "devices": {"cuda:0": {the same keys, without the last three}}. A list that is not set is null; the
// source of an op's order is at "per_op.OP", and the source of its contracts at "require.OP".
nlohmann::json policy_json(const Policy &flattened);

} // namespace opdock::core
