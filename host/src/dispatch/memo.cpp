#include "dispatch/memo.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dispatch/call_counts.hpp"
#include "dispatch/call_thread.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/run_chain.hpp"

namespace opdock::core {
namespace {

// The position in the signature of the caller's i-th attribute, which validation has found to exist.
uint32_t position_of(const Signature &signature, const opdock_args &args, uint32_t i) {
    const char *name = args.attributes[i].name;
    if (name == nullptr) {
        return i;
    }
    const auto found = std::find_if(signature.attributes.begin(), signature.attributes.end(),
                                    [&](const AttributeSpec &attribute) { return attribute.name == name; });
    return static_cast<uint32_t>(found - signature.attributes.begin());
}

// True if validation checks more of a value than its type. This includes bool: it must be 0 or 1.
bool is_checked(uint32_t type) {
    return type != OPDOCK_VALUE_INT && type != OPDOCK_VALUE_FLOAT;
}

// False if all tensors are absent or in host memory, which does not determine the device.
bool tells_device(const Signature &signature, const CallShape &shape) {
    for (uint32_t p = 0; p < signature.n_params(); ++p) {
        for (uint32_t t = shape.first[p]; t < shape.first[p + 1]; ++t) {
            if (!signature.parameter(p).host && !shape.tensors[t].absent) {
                return true;
            }
        }
    }
    return false;
}

} // namespace

bool same_attribute_value(const opdock_value &expected, const opdock_value &given) {
    switch (given.type) {
    case OPDOCK_VALUE_NONE:
        return true; // the default, as before
    case OPDOCK_VALUE_STRING:
        return given.count == expected.count && given.as.s != nullptr &&
               std::strncmp(given.as.s, expected.as.s, size_t{given.count} + 1) == 0; // including the terminating NUL
    case OPDOCK_VALUE_INTS: // compared bitwise, also doubles: a NaN equals itself
    case OPDOCK_VALUE_FLOATS:
        static_assert(sizeof(double) == sizeof(int64_t));
        return given.count == expected.count &&
               (given.count == 0 || (given.as.ints != nullptr &&
                                     std::memcmp(given.as.ints, expected.as.ints, given.count * sizeof(int64_t)) == 0));
    case OPDOCK_VALUE_STRINGS:
        return given.count == expected.count &&
               (given.count == 0 || (given.as.strings != nullptr &&
                                     std::equal(given.as.strings, given.as.strings + given.count, expected.as.strings,
                                                [](const opdock_text &one, const opdock_text &other) {
                                                    return one.size == other.size && one.text != nullptr &&
                                                           std::strncmp(one.text, other.text, one.size + 1) ==
                                                               0; // including the NUL
                                                })));
    case OPDOCK_VALUE_FLOAT:
        return std::bit_cast<uint64_t>(given.as.f) == std::bit_cast<uint64_t>(expected.as.f); // a NaN equals itself
    default: // an int may have been given for a float
        return expected.type == OPDOCK_VALUE_FLOAT ? expected.as.f == static_cast<double>(given.as.i)
                                                   : expected.as.i == given.as.i;
    }
}

namespace {

// Inlined: names are short, and programs that use them compare them at every call.
inline bool same_text(const char *a, const char *b) {
    while (*a == *b && *a != '\0') {
        ++a;
        ++b;
    }
    return *a == *b;
}

} // namespace

bool take_attribute(const Memo::GivenAttribute &expected, const std::vector<opdock_value> &values,
                    const opdock_attribute &given, opdock_value &into) {
    if (given.value.type != expected.type || (given.name != nullptr) != expected.named ||
        (expected.named && !same_text(expected.name.c_str(), given.name))) {
        return false;
    }
    if (expected.same_value) {
        return same_attribute_value(values[expected.position], given.value);
    }
    if (expected.promoted) {
        into.as.f = static_cast<double>(given.value.as.i);
    } else {
        into.as = given.value.as;
    }
    return true;
}

namespace {

bool same_shape(const TensorShape &expected, const DLTensor *given) {
    if (given == nullptr || expected.absent) {
        return given == nullptr && expected.absent;
    }
    const DLTensor &tensor = expected.tensor;
    return same_device(given->device, tensor.device) && given->ndim == tensor.ndim &&
           opdock_dtype_pack(given->dtype) == opdock_dtype_pack(tensor.dtype) &&
           std::equal(given->shape, given->shape + given->ndim, tensor.shape) &&
           (given->strides == nullptr
                ? !expected.given_strides
                : expected.given_strides && std::equal(given->strides, given->strides + given->ndim, tensor.strides));
}

} // namespace

bool matches(const Memo &memo, const opdock_args &args, Pointers &pointers) {
    if (std::memcmp(&args, memo.counts.data(), sizeof memo.counts) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < args.n_lists; ++i) {
        if (args.list_sizes[i] != memo.list_sizes[i]) {
            return false;
        }
    }
    if (memo.reads_device && !same_device(args.device, memo.shape.device)) {
        return false;
    }
    for (uint32_t i = 0; i < args.n_inputs; ++i) {
        if (!same_shape(memo.shape.tensors[i], args.inputs[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < args.n_outputs; ++i) {
        if (!same_shape(memo.shape.tensors[memo.shape.n_input_tensors + i], args.outputs[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < args.n_attributes; ++i) {
        const Memo::GivenAttribute &given = memo.given[i];
        if (!take_attribute(given, memo.shape.attributes, args.attributes[i], pointers.attributes[given.position])) {
            return false;
        }
    }
    return true;
}

Memo::Memo(std::shared_ptr<const Chain> of, const Bound &bound, const opdock_args &args, uint32_t struct_size,
           CallHost &host)
    : quick(no_quick_way()), chain(*of), n_inputs(args.n_inputs), shape(*of->op->signature, bound),
      kept_chain(std::move(of)) {
    static_assert(offsetof(opdock_args, inputs) == sizeof counts);
    std::memcpy(counts.data(), &args, sizeof counts);
    std::memcpy(counts.data(), &struct_size, sizeof struct_size);
    const Signature &signature = *chain.op->signature;
    bool every_value_matters = false;
    for (const Link &link : chain.links) {
        auto &attempt = attempts.emplace_back(std::make_unique<Attempt>(host, *link.deployment));
        attempt->counts = &link.deployment->counts().row(call_thread().number);
        const Implementation &implementation = *link.implementation;
        const bool other_form = implementation.form->n_params() != signature.n_params() ||
                                implementation.form->attributes.size() != signature.attributes.size();
        attempt->fits = !other_form || fits_form(*implementation.form, signature, bound);
        const Callbacks &callbacks = implementation.callbacks(); // known before they can be called
        every_value_matters |= other_form || callbacks.plan_create != nullptr || callbacks.heuristic != nullptr ||
                               callbacks.workspace_size != nullptr || callbacks.supports != nullptr;
    }
    for (uint32_t i = 0; i < args.n_attributes; ++i) {
        GivenAttribute attribute;
        attribute.type = args.attributes[i].value.type;
        attribute.position = position_of(signature, args, i);
        attribute.same_value = every_value_matters || is_checked(attribute.type);
        attribute.named = args.attributes[i].name != nullptr;
        attribute.name = attribute.named ? args.attributes[i].name : "";
        attribute.promoted =
            attribute.type == OPDOCK_VALUE_INT && signature.attributes[attribute.position].type == OPDOCK_VALUE_FLOAT;
        attribute.special = attribute.named || attribute.same_value || attribute.promoted;
        given.push_back(std::move(attribute));
    }
    if (args.n_lists > 0) {
        list_sizes.assign(args.list_sizes, args.list_sizes + args.n_lists);
    }
    reads_device = !tells_device(signature, shape);
    // Omitted trailing optional parameters would leave gaps between the given ones.
    repeats &= shape.n_tensors <= max_tensors && args.n_lists == 0 && !reads_device &&
               args.n_inputs == shape.n_input_tensors && args.n_inputs + args.n_outputs == shape.n_tensors;
    for (uint32_t t = 0; t < shape.n_tensors; ++t) {
        const TensorShape &tensor = shape.tensors[t];
        repeats &= tensor.absent || (!tensor.backwards && tensor.extent > 0 && tensor.given_strides);
    }
    if (repeats) {
        expect_tensors();
    }
}

void Memo::expect_tensors() {
    const Signature &signature = *shape.signature;
    for (uint32_t t = 0; t < shape.n_tensors; ++t) {
        const TensorShape &tensor = shape.tensors[t];
        QuickTensor &one = quick_tensors.at(t);
        one = {};
        one.alias = t;
        // There are no lists here, so a parameter's number is also its tensor's.
        const size_t first_output = signature.inputs.size();
        if (t < first_output) {
            one.written = signature.inputs[t].mut;
        } else {
            one.written = true;
            const int alias = signature.outputs[t - first_output].alias;
            if (alias >= 0 && same_shape(shape.tensors[alias], &tensor.tensor)) {
                one.alias = static_cast<uint32_t>(alias);
            }
        }
        one.absent = tensor.absent;
        if (tensor.absent) {
            std::memset(one.head, 0xff, sizeof one.head); // no tensor has such a head, not even a zeroed one
        } else {
            std::memcpy(one.head, &tensor.tensor.device, sizeof one.head);
            one.rank = tensor.tensor.ndim;
            one.shape = tensor.shape;
            one.strides = tensor.strides;
            one.misaligned = tensor.alignment_mask;
            one.extent = tensor.extent;
        }
    }
}

void Memo::take_quickly(Attempt &first) {
    for (uint32_t t = 0; t < shape.n_tensors; ++t) {
        if (!shape.tensors[t].absent) {
            quick_tensors.at(t).misaligned |= first.alignment_mask;
        }
    }
    call.struct_size = OPDOCK_STRUCT_SIZE(opdock_call, workspace_size);
    call.n_data = shape.n_tensors;
    call.data = data.data();
    attributes = first.attributes.data();
    head = &first;
    kernel = first.provider == nullptr ? first.kernel : run_on_device;
    quick = quick_way(*this);
}

} // namespace opdock::core
