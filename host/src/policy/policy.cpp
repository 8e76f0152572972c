#include "policy/policy.hpp"

#include <array>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// prefer before prefer_vendor: see set_item.
constexpr std::array<std::string_view, 9> names = {"prefer",        "prefer_vendor",   "strict",
                                                   "allow_vendors", "deny_vendors",    "per_op",
                                                   "retry_failed",  "fallback_to_cpu", "require"};

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
    return names;
}

void set_item(PolicySection &section, std::string_view name, std::string_view value, const Place &place,
              const std::string &source) {
    if (name == "prefer") {
        section.prefer = Item<Kind>{parse_kind(value, place), source};
    } else if (name == "prefer_vendor") {
        const Kind kind = parse_switch(value, place) ? Kind::vendor : Kind::default_; // wrong even when not used
        if (!section.prefer) {
            section.prefer = Item<Kind>{kind, source};
        }
    } else if (name == "strict") {
        section.strict = Item<bool>{parse_switch(value, place), source};
    } else if (name == "allow_vendors") {
        section.allow_vendors = Item<Vendors>{parse_vendors(value, place), source};
    } else if (name == "deny_vendors") {
        section.deny_vendors = Item<Vendors>{parse_vendors(value, place), source};
    } else if (name == "per_op") {
        section.per_op.clear();
        for (auto &[op, order] : parse_per_op(value, place)) {
            section.per_op[op] = Item<Order>{std::move(order), source};
        }
    } else if (name == "retry_failed") {
        section.retry_failed = Item<double>{parse_pause(value, place), source};
    } else if (name == "fallback_to_cpu") {
        section.fallback_to_cpu = Item<bool>{parse_switch(value, place), source};
    } else { // require
        set_require(section, parse_require(value, place), source);
    }
}

Policy policy_from_settings(std::span<const Setting> settings) {
    std::map<std::string_view, std::string_view> given;
    for (const Setting &setting : settings) {
        bool known = false;
        for (const std::string_view name : names) {
            known = known || name == setting.name;
        }
        if (setting.name == "trust" || setting.name == "trusted_sha256" || setting.name == "default_plugins") {
            throw Error(OPDOCK_INVALID_POLICY,
                        "setting " + quote(setting.name) +
                            " is not a program's: plugins are judged when the host opens, before "
                            "there is a policy of the program; set it in the environment or in a "
                            "policy file");
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
    static constexpr std::array<Variable, names.size()> order = {
        Variable::prefer,        Variable::prefer_vendor,   Variable::strict,
        Variable::allow_vendors, Variable::deny_vendors,    Variable::per_op,
        Variable::retry_failed,  Variable::fallback_to_cpu, Variable::require};
    Policy policy;
    Faults faults;
    const auto read = [&](Variable variable, auto set) {
        if (const std::string *value = environment.find(variable)) {
            faults.attempt([&] { set(*value, environment.place(variable), environment.name(variable)); });
        }
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
        read(order[i], [&](const std::string &value, const Place &place, const std::string &source) {
            set_item(policy.everywhere, names[i], value, place, source);
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
