#include <algorithm>

#include <fmt/format.h>

#include "signature/signature.hpp"

namespace opdock::core {

namespace {

bool includes(const std::vector<uint32_t> &all, const std::vector<uint32_t> &some) {
    return std::all_of(some.begin(), some.end(),
                       [&](uint32_t dtype) { return std::find(all.begin(), all.end(), dtype) != all.end(); });
}

// One against the other, the shorter first where it matters. Each function returns what speaks against it, or "".
class Comparison {
  public:
    Comparison(const Signature &shorter, const Signature &longer) : shorter_(shorter), longer_(longer) {}

    std::string conflict() const {
        std::string why = parameters("input", shorter_.inputs, longer_.inputs);
        if (why.empty()) {
            why = attributes();
        }
        if (why.empty()) {
            why = parameters("output", shorter_.outputs, longer_.outputs);
        }
        if (why.empty()) {
            why = dtypes();
        }
        return why.empty() ? constraints() : why;
    }

  private:
    std::string parameters(std::string_view what, const std::vector<Parameter> &shorter,
                           const std::vector<Parameter> &longer) const {
        for (size_t i = 0; i < longer.size(); ++i) {
            const std::string text = print_parameter(longer_, longer[i]);
            if (i >= shorter.size() && !longer[i].optional) {
                return fmt::format("{} '{}' is only in one of them and not optional", what, text);
            }
            if (i < shorter.size() && shorter[i] != longer[i]) {
                return fmt::format("{} {} is '{}' in one and '{}' in the other", what, i + 1,
                                   print_parameter(shorter_, shorter[i]), text);
            }
        }
        return "";
    }

    std::string attributes() const {
        for (size_t i = 0; i < longer_.attributes.size(); ++i) {
            const AttributeSpec &attribute = longer_.attributes[i];
            const std::string text = print_attribute(longer_, attribute);
            if (i >= shorter_.attributes.size()) {
                if (attribute.required) {
                    return fmt::format("attribute '{}' is only in one of them and has no default", text);
                }
                continue;
            }
            const std::string other = print_attribute(shorter_, shorter_.attributes[i]);
            if (shorter_.attributes[i] != attribute) {
                // Implementations list their dtypes in this order.
                return other == text
                           ? fmt::format("the dtype variable of attribute '{}' is not at the same place in the "
                                         "order of first appearance",
                                         text)
                           : fmt::format("attribute {} is '{}' in one and '{}' in the other", i + 1, other, text);
            }
        }
        return "";
    }

    std::string dtypes() const {
        for (size_t i = 0; i < shorter_.allowed_dtypes.size(); ++i) {
            const std::vector<uint32_t> &one = shorter_.allowed_dtypes[i];
            const std::vector<uint32_t> &other = longer_.allowed_dtypes[i];
            if (!includes(one, other) && !includes(other, one)) {
                return fmt::format("{} stands for {} in one and {} in the other, and neither allows all of the other's",
                                   longer_.dtype_variables[i], print_dtypes(one), print_dtypes(other));
            }
        }
        return "";
    }

    std::string constraints() const {
        const uint32_t known = (shorter_.dim_names.size() == 32 ? 0u : 1u << shorter_.dim_names.size()) - 1u;
        for (const Constraint &constraint : longer_.constraints) {
            // A clause about a dim that only the appended parameters have takes nothing away from the shorter form.
            if ((constraint.dims & ~known) == 0 && !contains(shorter_, constraint)) {
                return fmt::format("'where {}' is only in one of them", print_constraint(longer_, constraint));
            }
        }
        for (const Constraint &constraint : shorter_.constraints) {
            if (!contains(longer_, constraint)) {
                return fmt::format("'where {}' is only in one of them", print_constraint(shorter_, constraint));
            }
        }
        return "";
    }

    static bool contains(const Signature &signature, const Constraint &constraint) {
        const auto &all = signature.constraints;
        return std::find(all.begin(), all.end(), constraint) != all.end();
    }

    const Signature &shorter_;
    const Signature &longer_;
};

} // namespace

Compatibility compare(const Signature &a, const Signature &b, std::string *why) {
    const auto conflict = [why](std::string reason) {
        if (why != nullptr) {
            *why = std::move(reason);
        }
        return Compatibility::conflict;
    };
    if (a.name != b.name) {
        return conflict(fmt::format("'{}' and '{}' are two ops", a.name, b.name));
    }
    const auto has_more = [](const Signature &x, const Signature &y) {
        return x.inputs.size() > y.inputs.size() || x.outputs.size() > y.outputs.size() ||
               x.attributes.size() > y.attributes.size();
    };
    const bool a_longer = has_more(a, b);
    const bool b_longer = has_more(b, a);
    if (a_longer && b_longer) {
        return conflict("each has a parameter or an attribute that the other lacks");
    }
    const std::string reason = a_longer ? Comparison(b, a).conflict() : Comparison(a, b).conflict();
    if (!reason.empty()) {
        return conflict(reason);
    }
    return a_longer ? Compatibility::extends : b_longer ? Compatibility::extended_by : Compatibility::same;
}

} // namespace opdock::core
