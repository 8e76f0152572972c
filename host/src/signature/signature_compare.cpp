#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "signature/signature.hpp"

namespace opdock::core {

namespace {

bool overlap(const std::vector<uint32_t> &one, const std::vector<uint32_t> &other) {
    return std::find_first_of(one.begin(), one.end(), other.begin(), other.end()) != one.end();
}

uint32_t dims_of(const Parameter &parameter) {
    uint32_t dims = 0;
    for (const Dim &dim : parameter.dims) {
        dims |= dim.kind == Dim::Kind::name || dim.kind == Dim::Kind::scaled ? 1u << dim.index : 0;
    }
    return dims;
}

uint32_t dims_of_attributes(const Signature &signature) {
    uint32_t dims = 0;
    for (const AttributeSpec &attribute : signature.attributes) {
        dims |= attribute.dim >= 0 ? 1u << attribute.dim : 0;
    }
    return dims;
}

// Dims of attributes, and dims that outputs count, are numbered after those of inputs, so an appended input shifts
// their numbers. Returns `shorter` with the numbers that `longer` uses.
Signature renumbered(const Signature &shorter, const Signature &longer) {
    std::vector<size_t> numbers(shorter.dim_names.size());
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    Signature moved = shorter;
    const auto renumber = [&](int &dim, int number) {
        if (dim >= 0 && number >= 0) {
            numbers[static_cast<size_t>(dim)] = static_cast<size_t>(number);
            dim = number;
        }
    };
    for (size_t i = 0; i < std::min(shorter.attributes.size(), longer.attributes.size()); ++i) {
        renumber(moved.attributes[i].dim, longer.attributes[i].dim);
    }
    for (size_t i = 0; i < std::min(shorter.outputs.size(), longer.outputs.size()); ++i) {
        renumber(moved.outputs[i].counts, longer.outputs[i].counts);
    }
    moved.dim_names.resize(std::max(shorter.dim_names.size(), longer.dim_names.size()));
    for (size_t i = 0; i < numbers.size(); ++i) {
        moved.dim_names[numbers[i]] = shorter.dim_names[i];
    }
    const auto move = [&](Expression &expression) {
        for (Term &term : expression) {
            term.value = term.kind == Term::Kind::dim ? static_cast<int64_t>(numbers[static_cast<size_t>(term.value)])
                                                      : term.value;
        }
    };
    for (Parameter &output : moved.outputs) {
        for (Dim &dim : output.dims) {
            move(dim.expression);
            const bool is_named = dim.kind == Dim::Kind::name || dim.kind == Dim::Kind::scaled;
            dim.index = is_named ? static_cast<uint8_t>(numbers[dim.index]) : dim.index;
        }
    }
    for (Constraint &constraint : moved.constraints) {
        move(constraint.left);
        std::for_each(constraint.right.begin(), constraint.right.end(), move);
        uint32_t dims = 0;
        for (size_t i = 0; i < numbers.size(); ++i) {
            dims |= (constraint.dims >> i & 1u) << numbers[i];
        }
        constraint.dims = dims;
    }
    return moved;
}

// Compares a shorter signature with a longer one. Each function returns the first conflict, or "".
class Comparison {
  public:
    Comparison(const Signature &shorter, const Signature &longer)
        : shorter_(renumbered(shorter, longer)), longer_(longer) {}

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
            AttributeSpec expected = shorter_.attributes[i];
            if (expected.dim < 0) {
                expected.dim = attribute.dim; // a dim of appended outputs only: shared dims are compared by number
            }
            if (expected.dim != attribute.dim) {
                return fmt::format("attribute '{}' is a dim in one of them only", text);
            }
            if (expected != attribute) {
                // Implementations list dtypes in the order of first appearance.
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
            if (!overlap(one, other)) {
                return fmt::format("{} stands for {} in one and {} in the other, which have none in common",
                                   longer_.dtype_variables[i], print_dtypes(one), print_dtypes(other));
            }
        }
        return "";
    }

    std::string constraints() const {
        uint32_t known = dims_of_attributes(longer_); // they have a value in every call
        for (size_t i = 0; i < shorter_.n_params(); ++i) {
            known |= dims_of(shorter_.parameter(i));
        }
        for (const Constraint &constraint : longer_.constraints) {
            // A clause about a dim that only appended parameters have does not restrict the shorter form.
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

    const Signature shorter_;
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
        return conflict(fmt::format("'{}' and '{}' are different ops", a.name, b.name));
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
