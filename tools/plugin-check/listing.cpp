// Lists the cases of an implementation, based on its op's signature.
#include "cases.hpp"

#include <algorithm>
#include <set>

#include "attributes.hpp"
#include "inputs.hpp"
#include "rows.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::AttributeArgument;
using op_call::AttributeParameter;
using op_call::Parameter;
using op_call::Signature;

// In signatures: "(output ~ input: T[...])".
bool has_in_place(const Signature &signature) {
    const size_t results = signature.text.find("->");
    return results != std::string::npos && signature.text.find('~', results) != std::string::npos;
}

bool is_among(const std::vector<std::string> &names, const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> optionals_of(const Signature &signature) {
    const std::vector<std::string> appended = appended_to_standard(signature);
    std::vector<std::string> names;
    for (const std::vector<Parameter> *parameters : {&signature.inputs, &signature.outputs}) {
        for (const Parameter &parameter : *parameters) {
            if (parameter.optional && !is_among(appended, parameter.name)) {
                names.push_back(parameter.name);
            }
        }
    }
    return names;
}

bool has_optional_inputs(const Signature &signature) {
    return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                       [](const Parameter &input) { return input.optional; });
}

// The cases of one tuple of dtypes.
class Listing {
  public:
    Listing(const Subject &subject, const Signature &signature, const std::string &tuple, uint64_t seed,
            const Takes &takes, const Pinned &pinned, const Takes &takes_bare)
        : subject_(subject), signature_(signature), pinned_(pinned), random_(derive(seed, tuple)) {
        start_.tuple = tuple;
        appended_ = appended_to_standard(signature);
        for (const std::string &name : appended_) {
            if (!op_call::find_named(signature.attributes, name)) {
                start_.without.push_back(name);
            }
        }
        start_.dtypes = dtypes_of(signature, tuple);
        start_.attributes = required_attributes(signature, start_.dtypes);
        for (const AttributeArgument &attribute : pinned.attributes) {
            set_attribute(start_.attributes, attribute);
            start_.is_doubtful = true;
        }
        if (!pinned.shapes.empty()) {
            plain_ = pinned.shapes;
            batches_ = subject.batch_invariant && !row_dim(signature).empty() ? pinned.shapes : std::vector<Shapes>();
            return;
        }
        plain_ = plain_shapes(signature, random_, takes);
        empty_ = empty_shapes(signature, random_, takes);
        zero_ = zero_shapes(signature, random_, takes);
        ranks_ = rank_shapes(signature, random_, takes);
        square_ = square_shapes(signature, takes);
        // Few rows and little beside them: these cases do not depend on size.
        constexpr double work = 1 << 16;
        wide_ = shapes_of({{{2}, 8196}, {{2}, 16384}, {{1}, 16392}}, signature, random_, takes, work);
        mixed_ = shapes_of(
            {{{33}, 64}, {{5}, 4104}}, signature, random_,
            [&](const Shapes &shapes) {
                return !inputs_with_rows(signature_, start_.dtypes, shapes).empty() && takes(shapes);
            },
            work);
        if (subject.batch_invariant) {
            batches_ = batch_shapes(signature, random_, takes);
        }
        unequal_ = shapes_of({{{2}, 64}, {{1}, 16384}, {{1}, 65536}}, signature, random_, takes, work);
        if (takes_bare != nullptr && has_optional_inputs(signature)) {
            round_ = round_shapes(signature, random_, takes_bare);
        }
    }

    std::vector<Case> all() {
        for (const Shapes &shapes : plain_) {
            add(shapes, [](Case &) {});
        }
        for (const Shapes &shapes : empty_) {
            add(shapes, [](Case &) {});
        }
        if (plain_.empty()) {
            return cases_;
        }
        for (const Shapes &shapes : wide_) {
            add(shapes, [](Case &) {});
        }
        add_zero_dims();
        add_ranks();
        add_rows();
        add_without_optionals();
        for (const Values values : {Values::tiny, Values::huge, Values::sparse, Values::constant, Values::infinite}) {
            add(at(0.5), [&](Case &one) { one.values = values; });
        }
        add_unusual_numbers();
        for (const AttributeParameter &attribute : signature_.attributes) {
            if (is_varied(attribute)) {
                add_other_value(attribute);
                add_far_values(attribute);
                add_boundaries(attribute);
            }
        }
        add_all_other_values();
        add_round();
        add_shared();
        if (subject_.alignment <= 1) {
            add(at(0.4), [](Case &one) { one.layout = Layout::misaligned; });
            add(at(0.8), [](Case &one) { one.layout = Layout::misaligned; });
        }
        if (!subject_.needs_contiguous) {
            for (const Layout layout : {Layout::padded, Layout::transposed, Layout::scattered, Layout::mixed}) {
                add(at(0.35), [&](Case &one) { one.layout = layout; });
                add(at(0.6), [&](Case &one) { one.layout = layout; });
            }
            add(at(0.3), [](Case &one) { one.layout = Layout::distant; });
        }
        for (const double size : {0.3, 0.6, 0.9}) {
            add(at(size), [](Case &one) { one.exercise = Exercise::threads; });
        }
        if (unequal_.size() > 1) {
            add(unequal_.front(), [&](Case &one) {
                one.exercise = Exercise::threads;
                one.beside.assign(unequal_.begin() + 1, unequal_.end());
            });
        }
        for (const Shapes &shapes : batches_) {
            add(shapes, [](Case &one) { one.exercise = Exercise::batches; });
        }
        if (subject_.has_knobs) {
            add(at(0.55), [](Case &one) { one.exercise = Exercise::configs; });
            add(at(0.75), [](Case &one) { one.exercise = Exercise::configs; });
        }
        return cases_;
    }

  private:
    template<class Change>
    void add(const Shapes &shapes, Change change) {
        Case one = start_;
        one.shapes = shapes;
        change(one);
        one.attributes_text = plugin_check::text_of(one.attributes);
        one.seed = random_.bits();
        cases_.push_back(std::move(one));
    }

    bool is_varied(const AttributeParameter &attribute) const {
        return !op_call::find_named(pinned_.attributes, attribute.name) && !is_among(appended_, attribute.name);
    }

    // A call with nothing to compute may still have an output to fill, or none because the input is the output.
    void add_zero_dims() {
        for (const Shapes &shapes : zero_) {
            add(shapes, [](Case &) {});
            if (has_in_place(signature_)) {
                add(shapes, [](Case &one) { one.exercise = Exercise::in_place; });
            }
        }
    }

    // Kernels that use strides often support a limited number of dims, and mistake no dims for one.
    void add_ranks() {
        for (const Shapes &shapes : ranks_) {
            add(shapes, [](Case &) {});
            const bool is_end = &shapes == &ranks_.front() || &shapes == &ranks_.back();
            if (is_end && has_in_place(signature_)) {
                add(shapes, [](Case &one) { one.exercise = Exercise::in_place; });
            }
            if (is_end && !subject_.needs_contiguous) {
                add(shapes, [](Case &one) { one.layout = Layout::transposed; });
                add(shapes, [](Case &one) { one.layout = Layout::mixed; });
            }
        }
    }

    void add_unusual_numbers() {
        for (const double size : {0.2, 0.5}) {
            add(at(size), [](Case &one) { one.values = Values::denormal; });
        }
        for (const std::string &input : inputs_of_numbers(signature_, start_.dtypes)) {
            for (const auto &[values, size] :
                 {std::pair(Values::not_a_number, 0.2), std::pair(Values::not_a_number, 0.5),
                  std::pair(Values::infinite, 0.4)}) {
                add(at(size), [&, drawn = values](Case &one) {
                    one.values = drawn;
                    one.values_of = input;
                });
            }
        }
    }

    // Tensors that a caller may pass twice.
    void add_shared() {
        if (has_in_place(signature_)) {
            for (const double size : {0.3, 0.8}) {
                add(at(size), [](Case &one) { one.exercise = Exercise::in_place; });
            }
            std::vector<std::pair<Layout, double>> layouts; // each with a size
            if (subject_.alignment <= 1) {
                layouts.emplace_back(Layout::misaligned, 0.5);
            }
            if (!subject_.needs_contiguous) {
                for (const Layout layout : {Layout::padded, Layout::transposed, Layout::scattered, Layout::mixed}) {
                    layouts.emplace_back(layout, 0.5);
                }
                layouts.emplace_back(Layout::distant, 0.3);
            }
            for (const auto &[drawn, size] : layouts) {
                add(at(size), [layout = drawn](Case &one) {
                    one.exercise = Exercise::in_place;
                    one.layout = layout;
                });
            }
        }
        std::vector<Shapes> candidates = {at(0.4), at(0.7)};
        candidates.insert(candidates.end(), square_.begin(), square_.end());
        for (const Shapes &shapes : candidates) {
            if (!twins_of(signature_, start_.dtypes, shapes).empty()) {
                add(shapes, [](Case &one) { one.exercise = Exercise::same; });
            }
        }
    }

    // Short rows, several of which are processed by one block, and long ones.
    void add_rows() {
        for (const Shapes &shapes : mixed_) {
            for (const std::string &input : inputs_with_rows(signature_, start_.dtypes, shapes)) {
                add(shapes, [&](Case &one) {
                    one.values = Values::rows;
                    one.values_of = input;
                });
            }
        }
    }

    // Leaves out all of them, each one alone, and all but one.
    void add_without_optionals() {
        const std::vector<std::string> all = optionals_of(signature_);
        std::set<std::vector<std::string>> sets;
        if (!all.empty()) {
            for (const Shapes &shapes : plain_) { // everything done by a kernel that knows none of them
                add(shapes, [&](Case &one) { one.without.insert(one.without.end(), all.begin(), all.end()); });
            }
            sets.insert(all);
        }
        for (const std::string &name : all) {
            std::vector<std::string> others = all;
            std::erase(others, name);
            sets.insert({name});
            sets.insert(std::move(others));
        }
        sets.erase(std::vector<std::string>());
        for (const std::vector<std::string> &set : sets) {
            add(at(0.7), [&](Case &one) { one.without.insert(one.without.end(), set.begin(), set.end()); });
        }
    }

    // Kernels of libraries take round sizes and few optional inputs: everything that such a kernel does is among these.
    void add_round() {
        const Case start = start_;
        for (const Parameter &input : signature_.inputs) {
            if (input.optional && start_.has(input)) {
                start_.without.push_back(input.name);
            }
        }
        for (const Shapes &shapes : round_) {
            add(shapes, [](Case &) {});
            add(shapes, [](Case &one) { one.exercise = Exercise::threads; });
            for (const Parameter &output : signature_.outputs) {
                if (output.optional && start_.has(output)) {
                    add(shapes, [&](Case &one) { one.without.push_back(output.name); });
                }
            }
            for (const AttributeParameter &attribute : signature_.attributes) {
                add_round_values(shapes, attribute);
            }
            for (const Values values : {Values::sparse, Values::constant, Values::denormal}) {
                add(shapes, [&](Case &one) { one.values = values; });
            }
            for (const Layout layout : {Layout::padded, Layout::mixed}) {
                if (!subject_.needs_contiguous) {
                    add(shapes, [&](Case &one) { one.layout = layout; });
                }
            }
        }
        start_ = start;
    }

    void add_round_values(const Shapes &shapes, const AttributeParameter &attribute) {
        const std::optional<AttributeArgument> other = other_value(attribute);
        if (!other || !is_varied(attribute)) {
            return;
        }
        std::vector<AttributeArgument> values = {*other};
        if (attribute.type == "int") {
            for (const int64_t value : {int64_t(0), random_.one_of(boundaries_of(signature_, shapes))}) {
                values.push_back({attribute.name, value});
            }
        }
        for (const AttributeArgument &value : values) {
            add(shapes, [&](Case &one) {
                set_attribute(one.attributes, value);
                one.is_doubtful = true;
            });
        }
    }

    void add_other_value(const AttributeParameter &attribute) {
        const std::optional<AttributeArgument> other = other_value(attribute);
        if (!other) {
            return;
        }
        for (const double size : {0.25, 0.6}) {
            add(at(size), [&](Case &one) {
                set_attribute(one.attributes, *other);
                one.is_doubtful = one.is_doubtful || attribute.type == "int";
            });
        }
    }

    // Shortcuts for 0, and limits of a kernel that computes with fewer digits. A number near zero, multiplied by a
    // large one, may be a result that matters.
    void add_far_values(const AttributeParameter &attribute) {
        for (const AttributeArgument &value : far_values(attribute)) {
            const auto with_value = [&](Case &one) {
                set_attribute(one.attributes, value);
                one.is_doubtful = true;
            };
            add(at(0.4), with_value);
            constexpr double large = 1e10;
            if (std::get<double>(value.value) > large) {
                add(at(0.4), [&](Case &one) {
                    with_value(one);
                    one.values = Values::denormal;
                });
            }
        }
    }

    // Counts and places are often handled wrong where they equal a size of the call, or exceed a limit of the kernel.
    void add_boundaries(const AttributeParameter &attribute) {
        if (attribute.type != "int") {
            return;
        }
        const auto add_value = [&](const Shapes &shapes, int64_t value) {
            add(shapes, [&](Case &one) {
                set_attribute(one.attributes, {attribute.name, value});
                one.is_doubtful = true;
            });
        };
        const std::vector<Shapes> larger = {at(0.7), wide_.empty() ? plain_.back() : wide_.front()};
        const Shapes &small = at(0.3);
        for (const int64_t value : boundaries_of(signature_, small)) {
            add_value(small, value);
        }
        for (const Shapes &shapes : larger) {
            std::vector<int64_t> values = boundaries_of(signature_, shapes);
            constexpr int random_values = 2;
            for (int i = 0; i < random_values && values.back() > 2; ++i) {
                values.push_back(2 + static_cast<int64_t>(random_.below(static_cast<size_t>(values.back() - 2))));
                std::swap(values.back(), values[values.size() - 2]);
            }
            for (const int64_t value : values) {
                if (value > 1) {
                    add_value(shapes, value);
                }
            }
        }
    }

    void add_all_other_values() {
        std::vector<AttributeArgument> all = start_.attributes;
        size_t count = 0;
        for (const AttributeParameter &attribute : signature_.attributes) {
            const std::optional<AttributeArgument> other = other_value(attribute);
            if (other && is_varied(attribute)) {
                set_attribute(all, *other);
                ++count;
            }
        }
        if (count > 1) {
            add(at(0.5), [&](Case &one) {
                one.attributes = all;
                one.is_doubtful = true;
            });
        }
    }

    // From the smallest shape, 0, to the largest, 1; chosen among two or three.
    const Shapes &at(double size) {
        const auto last = static_cast<double>(plain_.size() - 1);
        const double place = size * last + random_.even(-1, 1);
        return plain_[static_cast<size_t>(std::lround(std::clamp(place, 0.0, last)))];
    }

    const Subject &subject_;
    const Signature &signature_;
    const Pinned &pinned_;
    Random random_;
    Case start_;
    std::vector<std::string> appended_; // to the standard op
    std::vector<Shapes> plain_;
    std::vector<Shapes> empty_;
    std::vector<Shapes> zero_;    // one name has size 0
    std::vector<Shapes> ranks_;   // few dims, and many
    std::vector<Shapes> square_;  // all dims are equal
    std::vector<Shapes> wide_;    // rows of about 16,384
    std::vector<Shapes> mixed_;   // for rows of different magnitudes
    std::vector<Shapes> batches_; // the largest ones
    std::vector<Shapes> unequal_; // for threads that run at the same time
    std::vector<Shapes> round_;   // for calls without optional inputs
    std::vector<Case> cases_;
};

} // namespace

std::vector<Case> cases_for(const Subject &subject, const Signature &signature, uint64_t seed, const Takes &takes,
                            const Pinned &pinned, const Takes &takes_bare) {
    std::vector<Case> cases;
    for (const std::string &tuple : subject.tuples) {
        for (Case &one :
             Listing(subject, signature, tuple, derive(seed, subject.op), takes, pinned, takes_bare).all()) {
            one.index = cases.size();
            cases.push_back(std::move(one));
        }
    }
    return cases;
}

} // namespace opdock::plugin_check
