#include "policy_names.hpp"

#include <algorithm>

#include "spelling.hpp"
#include "standard_ops.hpp"

namespace opdock::core {
namespace {

template<class Names>
std::vector<std::string_view> views(const Names &names) {
    std::vector<std::string_view> result;
    for (const auto &name : names) {
        if constexpr (requires { name.first; }) {
            result.push_back(name.first);
        } else {
            result.push_back(name);
        }
    }
    return result;
}

bool contains(const std::vector<std::string_view> &names, std::string_view name) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view known) { return same_name(known, name); });
}

class Check {
  public:
    explicit Check(const KnownNames &known)
        : known_(known), vendors_(views(known.vendors)), ops_(views(known.impl_ids)) {}

    void section(const PolicySection &section) {
        list(section.allow_vendors, "setting 'allow_vendors'", false);
        list(section.deny_vendors, "setting 'deny_vendors'", true);
        for (const auto &[op, order] : section.per_op) {
            const std::string where = order.source.empty() ? "setting 'per_op'" : order.source;
            const auto found = known_.impl_ids.find(op);
            if (found == known_.impl_ids.end()) {
                add(where + (standard_signature(op).empty()
                                 ? ": no plugin declares op " + quote(op) + did_you_mean(op, ops_)
                                 : ": " + quote(op) + " is a standard op that no loaded plugin implements"));
            }
            for (const Token &token : order.value) {
                if (token.type == Token::Type::vendor) {
                    vendor(token.name, where);
                } else if (token.type == Token::Type::impl && found != known_.impl_ids.end()) {
                    impl(op, views(found->second), token.name, where);
                }
            }
        }
    }

    std::vector<UnknownName> take() { return std::move(problems_); }

  private:
    void list(const std::optional<Item<Vendors>> &item, const char *setting, bool denied) {
        if (item) {
            for (const std::string &name : item->value) {
                vendor(name, item->source.empty() ? setting : item->source, denied);
            }
        }
    }

    void vendor(const std::string &name, const std::string &where, bool denied = false) {
        if (contains(views(known_.other_vendors), name)) {
            add(where + ": vendor " + quote(name) +
                " has plugins, but none of their implementations is of kind vendor, and those of other kinds are not "
                "chosen by vendor");
        } else if (!contains(vendors_, name)) {
            add(where + ": no plugin is of vendor " + quote(name) + did_you_mean(name, vendors_), denied);
        }
    }

    void impl(const std::string &op, const std::vector<std::string_view> &ids, const std::string &id,
              const std::string &where) {
        if (!contains(ids, id)) {
            add(where + ": op " + quote(op) + " has no implementation " + quote(id) + did_you_mean(id, ids));
        }
    }

    // A flattened policy repeats items in its device sections.
    void add(std::string problem, bool fulfilled = false) {
        if (std::none_of(problems_.begin(), problems_.end(),
                         [&](const UnknownName &known) { return known.problem == problem; })) {
            problems_.push_back({std::move(problem), fulfilled});
        }
    }

    const KnownNames &known_;
    std::vector<std::string_view> vendors_;
    std::vector<std::string_view> ops_;
    std::vector<UnknownName> problems_;
};

} // namespace

std::vector<UnknownName> unknown_names(const Policy &policy, const KnownNames &known) {
    Check check(known);
    check.section(policy.everywhere);
    for (const auto &[device, section] : policy.devices) {
        check.section(section);
    }
    return check.take();
}

} // namespace opdock::core
