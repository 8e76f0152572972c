#include "policy/policy_names.hpp"

#include <algorithm>
#include <unordered_set>

#include "devices/providers.hpp"
#include "signature/other_names.hpp"
#include "signature/standard_ops.hpp"
#include "text/spelling.hpp"

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

bool contains_vendor(const std::vector<std::string_view> &vendors, std::string_view name) {
    return std::any_of(vendors.begin(), vendors.end(),
                       [&](std::string_view vendor) { return names_vendor(name, vendor); });
}

class Check {
  public:
    explicit Check(const KnownNames &known)
        : known_(known), vendors_(views(known.vendors)), ops_(views(known.impl_ids)) {}

    void section(const PolicySection &section) {
        list(section.allow_vendors, "setting 'allow_vendors'", has_known(section.allow_vendors));
        list(section.deny_vendors, "setting 'deny_vendors'", true);
        for (const auto &[op, order] : section.per_op) {
            const std::string where = order.source.empty() ? "setting 'per_op'" : order.source;
            const auto found = known_.impl_ids.find(op);
            this->op(op, where);
            for (const Token &token : order.value) {
                if (token.type == Token::Type::vendor) {
                    vendor(token.name, where);
                } else if (token.type == Token::Type::impl && found != known_.impl_ids.end()) {
                    impl(op, views(found->second), token.name, where);
                }
            }
        }
        for (const auto &[op, contracts] : section.require_per_op) {
            this->op(op, contracts.source.empty() ? "setting 'require'" : contracts.source);
        }
    }

    // `everywhere`: the items that would hold for the device without this section.
    void device(const std::string &name, const PolicySection &section, const PolicySection &everywhere) {
        const std::string type = name.substr(0, name.find(':'));
        if (known_.device_types.contains(type) || is_dlpack_type(type)) {
            return;
        }
        const std::string source = source_of(section, everywhere);
        std::vector<std::string_view> types = views(known_.device_types);
        types.insert(types.end(), {"cuda", "rocm"}); // of opdock's own plugins, which may not be present
        add((source.empty() ? "" : source + ": ") + "the section for " + quote(name) +
                ": no loaded plugin supports device type " + quote(type) + (hints() ? did_you_mean(type, types) : ""),
            true);
    }

    std::vector<UnknownName> take() { return std::move(problems_); }

  private:
    // Finding suggestions takes time, and a file may have thousands of mistakes.
    bool hints() const { return problems_.size() < 100; }

    // One environment serves machines with different plugins: missing allowed vendors are reported only if none of the
    // allowed vendors is present.
    bool has_known(const std::optional<Item<Vendors>> &item) const {
        return item && std::any_of(item->value.begin(), item->value.end(), [&](const std::string &name) {
                   return contains_vendor(vendors_, name) || contains_vendor(views(known_.other_vendors), name);
               });
    }

    void list(const std::optional<Item<Vendors>> &item, const char *setting, bool fulfilled) {
        if (item) {
            for (const std::string &name : item->value) {
                if (!contains_vendor(views(known_.other_vendors), name)) {
                    vendor(name, item->source.empty() ? setting : item->source, fulfilled);
                }
            }
        }
    }

    // The source of the first item that is the section's own.
    static std::string source_of(const PolicySection &section, const PolicySection &everywhere) {
        std::string source;
        const auto look_at = [&](const auto &item, const auto &above) {
            if (source.empty() && item && item != above) {
                source = item->source;
            }
        };
        for_each_member([&](std::string_view /*name*/, auto member) { look_at(section.*member, everywhere.*member); });
        const auto look_at_ops = [&](const auto &items, const auto &items_above) {
            for (const auto &[op, item] : items) {
                const auto above = items_above.find(op);
                if (source.empty() && (above == items_above.end() || above->second != item)) {
                    source = item.source;
                }
            }
        };
        look_at_ops(section.per_op, everywhere.per_op);
        look_at_ops(section.require_per_op, everywhere.require_per_op);
        return source;
    }

    void op(const std::string &op, const std::string &where) {
        if (known_.impl_ids.contains(op)) {
            return;
        }
        if (!standard_signature(op).empty()) {
            add(where + ": " + quote(op) + " is a standard op that no loaded plugin implements");
        } else {
            add(where + ": no plugin declares op " + quote(op) + (hints() ? hint_at_op(op, ops_) : ""), false,
                op.find('.') == std::string::npos);
        }
    }

    void vendor(const std::string &name, const std::string &where, bool fulfilled = false) {
        if (contains_vendor(views(known_.other_vendors), name)) {
            add(where + ": vendor " + quote(name) +
                " has plugins, but none of their implementations is of kind vendor, and those of other kinds are not "
                "chosen by vendor");
        } else if (!contains_vendor(vendors_, name)) {
            add(where + ": no plugin is from vendor " + quote(name) + (hints() ? did_you_mean(name, vendors_) : ""),
                fulfilled);
        }
    }

    void impl(const std::string &op, const std::vector<std::string_view> &ids, const std::string &id,
              const std::string &where) {
        if (!contains(ids, id)) {
            add(where + ": op " + quote(op) + " has no implementation " + quote(id) +
                (hints() ? did_you_mean(id, ids) : ""));
        }
    }

    // Reports each problem once: a flattened policy repeats items in its device sections.
    void add(std::string problem, bool fulfilled = false, bool misspelt = false) {
        if (seen_.insert(problem).second) {
            problems_.push_back({std::move(problem), fulfilled, misspelt});
        }
    }

    const KnownNames &known_;
    std::vector<std::string_view> vendors_;
    std::vector<std::string_view> ops_;
    std::vector<UnknownName> problems_;
    std::unordered_set<std::string> seen_; // problems already reported
};

} // namespace

std::vector<UnknownName> unknown_names(const Policy &policy, const KnownNames &known) {
    Check check(known);
    check.section(policy.everywhere);
    for (const auto &[device, section] : policy.devices) {
        check.section(section);
        check.device(device, section, policy.everywhere);
    }
    return check.take();
}

} // namespace opdock::core
