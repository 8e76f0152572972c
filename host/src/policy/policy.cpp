#include "policy/policy.hpp"

#include <array>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// prefer before prefer_vendor: see set_item. A constant, since a forked child may find a half-initialized static.
constexpr auto all_settings = std::apply(
    [](const auto &...records) {
        return std::array{SettingName{records.name, records.variable}..., prefer_vendor_setting, per_op_setting,
                          require_setting};
    },
    settings::all);
constexpr auto all_names =
    std::apply([](const auto &...settings) { return std::array{settings.name...}; }, all_settings);

void set_require(PolicySection &section, const Required &required, const std::string &source) {
    section.require.reset();
    section.require_per_op.clear();
    if (required.everywhere) {
        section.require = Item<Contracts>{*required.everywhere, source};
    }
    for (const auto &[op, contracts] : required.per_op) {
        section.require_per_op[op] = Item<Contracts>{contracts, source};
    }
}

} // namespace

std::span<const std::string_view> setting_names() {
    return all_names;
}

void set_item(PolicySection &section, std::string_view name, std::string_view value, const Place &place,
              const std::string &source) {
    for_each_setting([&]<class T>(const SettingRecord<T> &record) {
        if (record.name == name) {
            section.*record.member = Item<T>{record.read(value, place), source};
        }
    });
    if (name == prefer_vendor_setting.name) {
        const Kind kind = parse_switch(value, place) ? Kind::vendor : Kind::default_; // always validated
        if (!section.prefer) {
            section.prefer = Item<Kind>{kind, source};
        }
    } else if (name == per_op_setting.name) {
        section.per_op.clear();
        for (auto &[op, order] : parse_per_op(value, place)) {
            section.per_op[op] = Item<Order>{std::move(order), source};
        }
    } else if (name == require_setting.name) {
        set_require(section, parse_require(value, place), source);
    }
}

Policy policy_from_settings(std::span<const Setting> settings) {
    const std::span<const std::string_view> names = setting_names();
    std::map<std::string_view, std::string_view> given;
    for (const Setting &setting : settings) {
        bool known = false;
        for (const std::string_view name : names) {
            known = known || name == setting.name;
        }
        if (setting.name == "trust" || setting.name == "trusted_sha256" || setting.name == "default_plugins") {
            throw Error(OPDOCK_INVALID_POLICY,
                        "setting " + quote(setting.name) +
                            " cannot be set by a program: plugins are judged when the host opens, before the program "
                            "has a policy; set it in the environment or in a policy file");
        }
        if (!known) {
            throw Error(OPDOCK_INVALID_POLICY, "expected a setting (" + one_of(names) + "), found " +
                                                   quote(setting.name) + did_you_mean(setting.name, names));
        }
        if (!given.emplace(setting.name, setting.value).second) {
            throw Error(OPDOCK_INVALID_POLICY, "setting " + quote(setting.name) + " is given twice; keep one");
        }
    }
    Policy policy;
    Faults faults;
    for (const std::string_view name : names) {
        if (const auto found = given.find(name); found != given.end()) {
            faults.attempt(
                [&] { set_item(policy.everywhere, name, found->second, Place{"setting " + quote(name)}, ""); });
        }
    }
    faults.raise();
    return policy;
}

Policy policy_from_environment(const Environment &environment) {
    Policy policy;
    Faults faults;
    const auto read = [&](Variable variable, auto set) {
        if (const std::string *value = environment.find(variable)) {
            faults.attempt([&] { set(*value, environment.place(variable), environment.name(variable)); });
        }
    };
    for (const SettingName &setting : all_settings) {
        read(setting.variable, [&](const std::string &value, const Place &place, const std::string &source) {
            set_item(policy.everywhere, setting.name, value, place, source);
        });
    }
    read(Variable::trust, [&](const std::string &value, const Place &place, const std::string &source) {
        policy.trust = Item<Trust>{parse_trust(value, place), source};
    });
    read(Variable::default_plugins, [&](const std::string &value, const Place &place, const std::string &source) {
        policy.default_plugins = Item<Vendors>{parse_vendors(value, place), source};
    });
    faults.raise();
    return policy;
}

} // namespace opdock::core
