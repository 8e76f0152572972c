#include "resolve/resolve.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

#include <spdlog/fmt/fmt.h>

#include "load/architecture.hpp"
#include "signature/dtype.hpp"
#include "signature/signature.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// "f32,-": "-" for a variable that the call leaves unbound.
std::string dtypes_text(const std::vector<std::uint32_t> &dtypes) {
    std::string result;
    for (const std::uint32_t dtype : dtypes) {
        result += (result.empty() ? "" : ",") + (dtype == 0 ? "-" : dtype_name(dtype));
    }
    return result;
}

// "a", "a or b", "a, b or c".
template<class Range, class Text>
std::string alternatives(const Range &range, Text text) {
    std::string result;
    std::size_t i = 0;
    for (const auto &entry : range) {
        result += i == 0 ? "" : i + 1 == range.size() ? " or " : ", ";
        result += text(entry);
        ++i;
    }
    return result;
}

bool contains(const Vendors &vendors, std::string_view vendor) {
    return std::any_of(vendors.begin(), vendors.end(),
                       [&](const std::string &name) { return names_vendor(name, vendor); });
}

std::string order_of(const std::string &source) {
    return source == built_in_source ? "the built-in order" : "the order of " + source;
}

// The rules in order; each drops the contender by filling in `rule` and `reason`, or does nothing.
class Rules {
  public:
    Rules(const Key &key, const OpPolicy &policy) : key_(key), policy_(policy) {}

    // True, with `rule` and `reason`, if a rule drops the contender; otherwise `token` is the token that named it.
    bool drop(const Contender &contender) {
        const Candidate &candidate = *contender.candidate;
        if (!same_name(candidate.device, key_.device_type)) {
            return because(Rule::device, "it runs on " + candidate.device + ", not on " + key_.device_type);
        }
        if (!takes_dtypes(candidate)) {
            return because(Rule::dtypes, taken_text(candidate) + ", not " + dtypes_text(key_.dtypes));
        }
        if (!runs_on_architecture(candidate)) {
            return because(Rule::architecture, architecture_reason(candidate));
        }
        if (drop_by_vendor(candidate) || drop_by_contract(candidate)) {
            return true;
        }
        if (!contender.health.in_chain) {
            return because(Rule::health,
                           contender.health.reason.empty() ? "it failed too often" : contender.health.reason);
        }
        token = 0;
        while (token < policy_.order.size() &&
               !policy_.order[token].names(candidate.impl_id, candidate.kind, candidate.vendor,
                                           candidate.comes_with_opdock)) {
            ++token;
        }
        if (token == policy_.order.size()) {
            return because(Rule::order, "no token of the order " + shown_order(policy_.order) + " of " +
                                            policy_.order_source + " names it");
        }
        if (contender.availability.answer == Availability::no) {
            return because(Rule::availability,
                           contender.availability.reason.empty() ? "not available" : contender.availability.reason);
        }
        return false;
    }

    // Uses the vendor of the candidate's plugin, not the kind that the candidate declares.
    bool drop_by_vendor(const Candidate &candidate) {
        const std::string &vendor = candidate.plugin_vendor.empty() ? candidate.vendor : candidate.plugin_vendor;
        const std::optional<Item<Vendors>> &denied = policy_.items.deny_vendors;
        const std::optional<Item<Vendors>> &allowed = policy_.items.allow_vendors;
        if (denied && contains(denied->value, vendor)) {
            return because(Rule::deny_vendors, "vendor " + quote(vendor) + " is denied by " + denied->source);
        }
        if (!allowed || (candidate.own && candidate.kind != Kind::vendor) || contains(allowed->value, vendor)) {
            return false;
        }
        return because(
            Rule::allow_vendors,
            "vendor " + quote(vendor) + " is not allowed by " + allowed->source + ", which allows " +
                (allowed->value.empty() ? "nobody" : "only " + alternatives(allowed->value, [](const auto &name) {
                                                         return quote(name);
                                                     })));
    }

    Rule rule = Rule::device;
    std::string reason;
    std::size_t token = 0;

  private:
    bool because(Rule dropped_by, std::string why) {
        rule = dropped_by;
        reason = std::move(why);
        return true;
    }

    bool drop_by_contract(const Candidate &candidate) {
        for (const Item<Contracts> &required : policy_.required) {
            const Contracts lacking{required.value.flags & ~candidate.flags};
            if (lacking.flags != 0) {
                return because(Rule::contract, "it does not promise " +
                                                   alternatives(names_of(lacking), std::identity()) + ", which " +
                                                   required.source + " asks for");
            }
        }
        return false;
    }

    bool takes_dtypes(const Candidate &candidate) const {
        // A variable that the call leaves unbound fits every tuple, and an implementation that knows a shorter form of
        // the signature lists only the first variables of the longer one.
        const auto fits = [&](const std::vector<std::uint32_t> &tuple) {
            return tuple.size() <= key_.dtypes.size() &&
                   std::equal(tuple.begin(), tuple.end(), key_.dtypes.begin(),
                              [](std::uint32_t listed, std::uint32_t asked) { return asked == 0 || asked == listed; });
        };
        return key_.any_dtypes ||
               (candidate.dtypes.empty() ? declares_dtypes(candidate)
                                         : std::any_of(candidate.dtypes.begin(), candidate.dtypes.end(), fits));
    }

    // The op's form may allow more dtypes than the form that the implementation knows.
    bool declares_dtypes(const Candidate &candidate) const {
        const auto &declared = candidate.allowed_dtypes;
        return declared.size() <= key_.dtypes.size() &&
               std::equal(declared.begin(), declared.end(), key_.dtypes.begin(),
                          [](const std::vector<std::uint32_t> &allowed, std::uint32_t asked) {
                              return asked == 0 || std::find(allowed.begin(), allowed.end(), asked) != allowed.end();
                          });
    }

    static std::string taken_text(const Candidate &candidate) {
        constexpr std::size_t most_listed = 32;
        if (candidate.dtypes.size() > most_listed) {
            return "it takes " + std::to_string(candidate.dtypes.size()) + " combinations of dtypes, the first " +
                   dtypes_text(candidate.dtypes.front());
        }
        if (!candidate.dtypes.empty()) {
            return "it takes dtypes " + alternatives(candidate.dtypes, dtypes_text);
        }
        std::string allowed;
        for (const std::vector<std::uint32_t> &of_variable : candidate.allowed_dtypes) {
            allowed += (allowed.empty() ? "" : ",") + print_dtypes(of_variable);
        }
        return "it lists no dtypes, and its own declaration of the op allows " + allowed;
    }

    bool runs_on_architecture(const Candidate &candidate) const {
        return key_.any_architecture || candidate.architectures.empty() ||
               std::any_of(candidate.architectures.begin(), candidate.architectures.end(),
                           [&](const std::string &pattern) {
                               return architecture_matches(pattern, key_.architecture, key_.ordered_architectures);
                           });
    }

    std::string architecture_reason(const Candidate &candidate) const {
        const std::string needed =
            "it runs on " + alternatives(candidate.architectures, [](const std::string &pattern) { return pattern; });
        if (key_.architecture.empty()) {
            return needed + ", and the architecture of this device is not known";
        }
        return needed + ", not on " + key_.architecture;
    }

    const Key &key_;
    const OpPolicy &policy_;
};

} // namespace

std::string_view rule_name(Rule rule) {
    switch (rule) {
    case Rule::device:
        return "device";
    case Rule::dtypes:
        return "dtypes";
    case Rule::architecture:
        return "architecture";
    case Rule::allow_vendors:
        return "allow_vendors";
    case Rule::deny_vendors:
        return "deny_vendors";
    case Rule::contract:
        return "contract";
    case Rule::health:
        return "health";
    case Rule::order:
        return "order";
    case Rule::availability:
        break;
    }
    return "availability";
}

std::string refusal_of_vendor(const Candidate &candidate, const OpPolicy &policy) {
    Rules rules({}, policy);
    return rules.drop_by_vendor(candidate) ? rules.reason : "";
}

Decision resolve(std::span<const Contender> contenders, const Key &key, OpPolicy policy) {
    struct Ranked {
        std::size_t token;
        std::int32_t priority;
        Kept kept;
    };
    Decision decision;
    std::vector<Ranked> places;
    Rules rules(key, policy);
    std::vector<std::string> named_by; // for each token of the order
    for (const Token &token : policy.order) {
        named_by.push_back(quote(token.text()) + " in " + order_of(policy.order_source));
    }
    for (std::size_t id = 0; id < contenders.size(); ++id) {
        const Contender &contender = contenders[id];
        const Candidate &candidate = *contender.candidate;
        if (rules.drop(contender)) {
            decision.dropped.push_back({id, candidate.impl_id, rules.rule, std::move(rules.reason)});
            continue;
        }
        places.push_back({rules.token, candidate.priority,
                          Kept{id, candidate.impl_id, candidate.kind, candidate.vendor, policy.order[rules.token],
                               named_by[rules.token], contender.availability.answer}});
    }
    // Implementations of one token are sorted by priority, highest first, then by id in descending order, as in TE-FL.
    std::sort(places.begin(), places.end(), [](const Ranked &a, const Ranked &b) {
        return std::tie(a.token, b.priority, b.kept.impl_id, a.kept.id) <
               std::tie(b.token, a.priority, a.kept.impl_id, b.kept.id);
    });
    for (Ranked &place : places) {
        decision.chain.push_back(std::move(place.kept));
    }
    std::sort(decision.dropped.begin(), decision.dropped.end(),
              [](const Dropped &a, const Dropped &b) { return std::tie(a.impl_id, a.id) < std::tie(b.impl_id, b.id); });
    decision.policy = std::move(policy);
    return decision;
}

std::string key_text(const Key &key) {
    std::string text = key.device_type + ":" + std::to_string(key.device_index);
    if (!key.any_dtypes && !key.dtypes.empty()) {
        text += ", dtypes " + dtypes_text(key.dtypes);
    }
    return text;
}

std::string decision_text(std::string_view op, const Key &key, const Decision &decision) {
    std::size_t width = 0;
    for (const Kept &kept : decision.chain) {
        width = std::max(width, kept.impl_id.size());
    }
    for (const Dropped &dropped : decision.dropped) {
        width = std::max(width, dropped.impl_id.size());
    }
    const auto line = [&](const std::string &mark, const std::string &impl_id, const std::string &why) {
        return fmt::format("{:>3}  {:<{}}  {}\n", mark, impl_id, width, why);
    };
    const OpPolicy &policy = decision.policy;
    std::string text = std::string(op) + " on " + key_text(key) + ", order " + shown_order(policy.order) + " (" +
                       policy.order_source + "), " + (policy.value(settings::strict) ? "strict" : "not strict") + " (" +
                       policy.source(settings::strict) + ")\n";
    for (std::size_t i = 0; i < decision.chain.size(); ++i) {
        text += line(std::to_string(i + 1), decision.chain[i].impl_id, decision.chain[i].rule);
    }
    for (const Dropped &dropped : decision.dropped) {
        text += line("-", dropped.impl_id, std::string(rule_name(dropped.rule)) + ": " + dropped.reason);
    }
    return text;
}

} // namespace opdock::core
