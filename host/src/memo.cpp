#include "memo.hpp"

#include <algorithm>

#include "host.hpp"

namespace opdock::core {
namespace {

// The attribute that the caller's i-th is; validation has seen to it that there is one.
uint32_t position_of(const Signature &signature, const opdock_args &args, uint32_t i) {
    if (args.attribute_names == nullptr) {
        return i;
    }
    const auto found =
        std::find_if(signature.attributes.begin(), signature.attributes.end(),
                     [&](const AttributeSpec &attribute) { return attribute.name == args.attribute_names[i]; });
    return static_cast<uint32_t>(found - signature.attributes.begin());
}

bool has_content(uint32_t type) {
    return type == OPDOCK_VALUE_STRING || type == OPDOCK_VALUE_INTS || type == OPDOCK_VALUE_DTYPE ||
           type == OPDOCK_VALUE_NONE;
}

} // namespace

bool same_attribute_value(const opdock_value &expected, const opdock_value &given) {
    switch (given.type) {
    case OPDOCK_VALUE_NONE:
        return true; // the default it was then
    case OPDOCK_VALUE_STRING:
        return given.count == expected.count && std::memcmp(given.as.s, expected.as.s, given.count) == 0;
    case OPDOCK_VALUE_INTS:
        return given.count == expected.count &&
               std::equal(given.as.ints, given.as.ints + given.count, expected.as.ints);
    case OPDOCK_VALUE_FLOAT:
        return std::memcmp(&given.as, &expected.as, sizeof given.as) == 0;
    default: // an int may have been taken for a float
        return expected.type == OPDOCK_VALUE_FLOAT ? expected.as.f == static_cast<double>(given.as.i)
                                                   : expected.as.i == given.as.i;
    }
}

Memo::Memo(const Chain &of, const Bound &bound, const opdock_args &args, Host &host)
    : chain(of), given_inputs(args.n_inputs), given_outputs(args.n_outputs), shape(*of.op->signature, bound) {
    const Signature &signature = *of.op->signature;
    bool every_value_matters = false;
    for (const Link &link : chain.links) {
        auto &attempt = attempts.emplace_back(std::make_unique<Attempt>(host, *link.deployment));
        const Implementation &implementation = *link.implementation;
        const bool other_form = implementation.form->n_params() != signature.n_params() ||
                                implementation.form->attributes.size() != signature.attributes.size();
        attempt->fits = !other_form || fits_form(*implementation.form, signature, bound);
        every_value_matters |= other_form || implementation.plan_create != nullptr ||
                               implementation.heuristic != nullptr || implementation.workspace_size != nullptr;
    }
    quick = shape.n_tensors <= max_tensors;
    for (uint32_t i = 0; i < args.n_attributes; ++i) {
        GivenAttribute attribute;
        attribute.type = args.attributes[i].type;
        attribute.position = position_of(signature, args, i);
        attribute.same_value = every_value_matters || has_content(attribute.type);
        attribute.named = args.attribute_names != nullptr;
        attribute.name = attribute.named ? args.attribute_names[i] : "";
        const uint32_t expected = signature.attributes[attribute.position].type;
        quick &= attribute.same_value || attribute.type == expected ||
                 (attribute.type == OPDOCK_VALUE_INT && expected == OPDOCK_VALUE_FLOAT);
        given.push_back(std::move(attribute));
    }
    if (args.n_lists > 0) {
        list_sizes.assign(args.list_sizes, args.list_sizes + args.n_lists);
    }
    reads_device = std::all_of(shape.pointers.begin(), shape.pointers.end(),
                               [](const DLTensor *tensor) { return tensor == nullptr; });
    for (uint32_t t = 0; t < shape.n_tensors; ++t) {
        quick &= !shape.tensors[t].backwards;
    }
    if (!quick) {
        return;
    }
    for (size_t p = 0; p < signature.outputs.size(); ++p) {
        const size_t output = signature.inputs.size() + p;
        for (uint32_t b = shape.first[output]; b < shape.first[output + 1]; ++b) {
            for (uint32_t a = 0; a < b; ++a) {
                if (shape.tensors[a].extent == 0 || shape.tensors[b].extent == 0) {
                    continue;
                }
                const int alias = signature.outputs[p].alias;
                const bool may_alias = alias >= 0 && a == shape.first[static_cast<size_t>(alias)] &&
                                       a < shape.n_input_tensors &&
                                       same_shape(shape.tensors[a], shape.tensors[b].tensor);
                pairs.push_back({a, b, may_alias});
            }
        }
    }
}

} // namespace opdock::core
