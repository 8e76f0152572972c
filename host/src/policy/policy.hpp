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

// The settings that stand alone (text/settings.def has what each means).
struct SettingItems {
#define SETTING(name, stem, type, ...) std::optional<Item<type>> name;
#include "text/settings.def"
#undef SETTING

    bool operator==(const SettingItems &) const = default;
};

// The items for all devices, or for one kind or one device. What is not set comes from elsewhere; an empty list that is
// set is a list of nobody.
struct PolicySection : SettingItems {
    std::map<std::string, Item<Order>, std::less<>> per_op;
    // What an implementation has to promise: for every op, and for single ones beside that.
    std::optional<Item<Contracts>> require;
    std::map<std::string, Item<Contracts>, std::less<>> require_per_op;

    bool operator==(const PolicySection &) const = default;
};

template<class T>
struct SettingRecord {
    std::string_view name; // in files, and of a program's
    Variable variable;     // of the environment
    std::optional<Item<T>> SettingItems::*member;
    T (*read)(std::string_view value, const Place &place);
    std::optional<T> built_in; // what holds where nobody set it; none: nothing does
};

namespace settings {

#define SETTING(name, stem, type, read, built_in, ...)                                                                 \
    inline constexpr SettingRecord<type> name{#name, Variable::name, &SettingItems::name, read, built_in};
#include "text/settings.def"
#undef SETTING

inline constexpr std::tuple all = {
#define SETTING(name, ...) name,
#include "text/settings.def"
#undef SETTING
};

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
