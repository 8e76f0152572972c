// The policy of one source: items, each with the place where it was written. policy_stack.hpp combines sources.
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

// The source of items that nobody set. Not "default", which is a kind.
inline constexpr const char *built_in_source = "built-in";

template<class T>
struct Item {
    T value;
    // "PLUGIN_PREFER", "/etc/opdock/policy.yaml:3:9", "built-in". Empty for a setting of the program: then the name of
    // the policy's layer ("program", "scope") is used.
    std::string source;

    bool operator==(const Item &) const = default;
};

using Vendors = std::vector<std::string>; // folded
using Digests = std::vector<std::string>; // SHA-256, in hexadecimal

// The independent settings (text/settings.def documents each).
struct SettingItems {
#define SETTING(name, stem, type, ...) std::optional<Item<type>> name;
#include "text/settings.def"
#undef SETTING

    bool operator==(const SettingItems &) const = default;
};

// Items for all devices, for one kind or for one device. An unset item comes from elsewhere; a list that is set but
// empty means no vendors.
struct PolicySection : SettingItems {
    std::map<std::string, Item<Order>, std::less<>> per_op;
    // Contracts required of implementations: for every op, and additional ones for single ops.
    std::optional<Item<Contracts>> require;
    std::map<std::string, Item<Contracts>, std::less<>> require_per_op;

    bool operator==(const PolicySection &) const = default;
};

template<class T>
struct SettingRecord {
    std::string_view name; // in policy files and in a program's settings
    Variable variable;     // in the environment
    std::optional<Item<T>> SettingItems::*member;
    T (*read)(std::string_view value, const Place &place);
    std::optional<T> built_in; // the value if nobody set it; nullopt: no value
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

// Settings without a record: another spelling of prefer, and two that also have items for single ops.
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

// Like for_each_setting, and for the contracts that `require` demands of every op: passes only the member.
template<class Work>
void for_each_member(Work work) {
    for_each_setting([&](const auto &record) { work(record.name, record.member); });
    work(require_setting.name, &PolicySection::require);
}

struct Policy {
    PolicySection everywhere;
    // By "cuda" or "cuda:0" (folded). Within one policy the most specific section that has an item wins.
    std::map<std::string, PolicySection, std::less<>> devices;
    // Used only from sources that are known when plugins are searched: neither the program's policy, which needs an
    // open host, nor a thread's scope has these items.
    std::optional<Item<Trust>> trust;
    std::optional<Item<Digests>> trusted_sha256;
    // Folded plugin ids and vendor names whose kinds default and reference count like opdock's own.
    std::optional<Item<Vendors>> default_plugins;
    // Ignore all layers below this policy: a missing item has its default. True for the effective policy of a thread.
    bool complete = false;

    bool operator==(const Policy &) const = default;
};

using PolicyPtr = std::shared_ptr<const Policy>;

struct Setting {
    std::string name;
    std::string value;
};

// `settings`: names from setting_names(), values as in the environment variables. Throws Error(OPDOCK_INVALID_POLICY)
// that names setting and column.
Policy policy_from_settings(std::span<const Setting> settings);

Policy policy_from_environment(const Environment &environment);

// Names of the settings, for messages and files.
std::span<const std::string_view> setting_names();

// Sets one of setting_names() in `section` to a value spelled as in the environment. PREFER_VENDOR does not replace an
// existing PREFER, and must therefore be set after it.
void set_item(PolicySection &section, std::string_view name, std::string_view value, const Place &place,
              const std::string &source);

} // namespace opdock::core
