// A policy as one source states it: some items, each with where it was written. policy_stack.hpp puts sources together.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "load/contract.hpp"
#include "load/token.hpp"
#include "text/environment.hpp"
#include "text/setting_text.hpp"
#include "trust/trust_policy.hpp"

namespace opdock::core {

// The source of what nobody set. Not "default", which is a kind.
inline constexpr const char *built_in_source = "built-in";

template<class T>
struct Item {
    T value;
    // "PLUGIN_PREFER", "/etc/opdock/policy.yaml:3:9", "built-in". Empty for a setting of the program: the layer that
    // the policy is put into ("program", "scope") names it.
    std::string source;

    bool operator==(const Item &) const = default;
};

using Vendors = std::vector<std::string>; // folded
using Digests = std::vector<std::string>; // SHA-256, in hexadecimal

// The items for all devices, or for one kind or one device. What is not set comes from elsewhere; an empty list that is
// set is a list of nobody.
struct PolicySection {
    std::optional<Item<Kind>> prefer;
    std::optional<Item<bool>> strict;
    std::optional<Item<Vendors>> allow_vendors;
    std::optional<Item<Vendors>> deny_vendors;
    std::map<std::string, Item<Order>, std::less<>> per_op;
    // Seconds until an implementation that failed too often is tried again; 0: never.
    std::optional<Item<double>> retry_failed;
    // Whether the CPU's implementations serve what nothing on the device does, with copies there and back.
    std::optional<Item<bool>> fallback_to_cpu;
    // What an implementation has to promise: for every op, and for single ones beside that.
    std::optional<Item<Contracts>> require;
    std::map<std::string, Item<Contracts>, std::less<>> require_per_op;

    bool operator==(const PolicySection &) const = default;
};

// The settings of a section, one record each. A new one is a member of PolicySection, a record here and in `all` below,
// a row among the variables of the environment (text/variables.hpp), and a member of OpPolicy, which
// PolicyStack::effective() fills.
template<class T>
struct SettingRecord {
    std::string_view name; // in files, and of a program's
    Variable variable;     // of the environment
    std::optional<Item<T>> PolicySection::*member;
    T (*read)(std::string_view value, const Place &place);
    std::optional<T> built_in; // what holds where nobody set it; none: nothing does
};

namespace settings {

inline constexpr SettingRecord<Kind> prefer{"prefer", Variable::prefer, &PolicySection::prefer, parse_kind,
                                            Kind::default_};
inline constexpr SettingRecord<bool> strict{"strict", Variable::strict, &PolicySection::strict, parse_switch, false};
inline constexpr SettingRecord<Vendors> allow_vendors{
    "allow_vendors", Variable::allow_vendors, &PolicySection::allow_vendors, parse_vendors, {}};
inline constexpr SettingRecord<Vendors> deny_vendors{
    "deny_vendors", Variable::deny_vendors, &PolicySection::deny_vendors, parse_vendors, {}};
inline constexpr SettingRecord<double> retry_failed{"retry_failed", Variable::retry_failed,
                                                    &PolicySection::retry_failed, parse_pause, 60};
inline constexpr SettingRecord<bool> fallback_to_cpu{"fallback_to_cpu", Variable::fallback_to_cpu,
                                                     &PolicySection::fallback_to_cpu, parse_switch, false};

inline constexpr std::tuple all = {prefer, strict, allow_vendors, deny_vendors, retry_failed, fallback_to_cpu};

} // namespace settings

// Those that are no record: another spelling of prefer, and two that also have items for single ops.
struct SettingName {
    std::string_view name;
    Variable variable;
};
inline constexpr SettingName prefer_vendor_setting{"prefer_vendor", Variable::prefer_vendor};
inline constexpr SettingName per_op_setting{"per_op", Variable::per_op};
inline constexpr SettingName require_setting{"require", Variable::require};

template<class Work>
void for_each_setting(Work work) {
    std::apply([&](const auto &...records) { (work(records), ...); }, settings::all);
}

// As above, and for what `require` asks of every op: a member alone.
template<class Work>
void for_each_member(Work work) {
    for_each_setting([&](const auto &record) { work(record.name, record.member); });
    work(require_setting.name, &PolicySection::require);
}

struct Policy {
    PolicySection everywhere;
    // By "cuda" or "cuda:0" (folded). Within one policy the most specific section that has an item wins.
    std::map<std::string, PolicySection, std::less<>> devices;
    // Only what is known when plugins are looked for counts: neither the program's policy, which needs an open host,
    // nor a thread's scope has these.
    std::optional<Item<Trust>> trust;
    std::optional<Item<Digests>> trusted_sha256;
    // Whose kinds default and reference count as opdock's own do: folded ids of plugins and names of vendors.
    std::optional<Item<Vendors>> default_plugins;
    // Nothing below this policy counts: an item it lacks has its default. So is the effective policy of a thread.
    bool complete = false;

    bool operator==(const Policy &) const = default;
};

using PolicyPtr = std::shared_ptr<const Policy>;

struct Setting {
    std::string name;
    std::string value;
};

// Settings of a program, which are setting_names(), with the values of the environment variables. Throws
// Error(OPDOCK_INVALID_POLICY) that names setting and column.
Policy policy_from_settings(std::span<const Setting> settings);

Policy policy_from_environment(const Environment &environment);

// The names of the settings, for messages and files.
std::span<const std::string_view> setting_names();

// Writes one of the settings of setting_names(), spelled as in the environment, into `section`. PREFER_VENDOR yields to
// a PREFER already there, and must therefore come after it.
void set_item(PolicySection &section, std::string_view name, std::string_view value, const Place &place,
              const std::string &source);

} // namespace opdock::core
