// A call that was validated, remembered: a later call that looks the same is valid too.
//
// Validation depends on dtypes, shapes, strides and devices, not on pointers or values of attributes, and most calls of
// an op repeat one of a few shapes. So a call is compared with the last ones of its thread, field by field, which is a
// fraction of the work of validating it; what depends on pointers (null, alignment, overlap) is checked each time. A
// memo belongs to one thread, so nothing here is locked or shared; only the counters in its attempts are read by
// others.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "attempt.hpp"
#include "call_shape.hpp"
#include "chain.hpp"

namespace opdock::core {

struct Memo {
    // Calls with more tensors take the long way each time.
    static constexpr size_t max_tensors = 32;

    Memo(const Chain &of, const Bound &bound, const opdock_args &args, Host &host);

    struct GivenAttribute {
        uint32_t type;     // the tag the caller used
        uint32_t position; // in the signature
        bool same_value;   // the memo holds for this value only
        bool named;
        std::string name;
    };
    // Two tensors that must not overlap, or may only be the same (`output ~ input`).
    struct Pair {
        uint32_t a;
        uint32_t b;
        bool may_alias;
    };

    const Chain &chain;
    // May be matched without validating: small enough, and its extents are plain.
    bool quick = true;
    // The caller's counts: trailing optional parameters may have been left out.
    uint32_t given_inputs;
    uint32_t given_outputs;
    bool reads_device = false; // no tensor tells the device
    CallShape shape;
    std::vector<GivenAttribute> given;
    std::vector<uint32_t> list_sizes;
    std::vector<Pair> pairs;
    std::vector<std::unique_ptr<Attempt>> attempts; // one for each link of the chain, made ready when first tried
};

// What a matching call has that the memo does not.
struct Pointers {
    void **data;              // shape.n_tensors of them
    opdock_value *attributes; // the signature's, defaults filled in
    uint64_t bits = 0;        // all data pointers or'ed
    bool aliased = false;     // an output is its `~` input
};

inline bool same_shape(const TensorShape &expected, const DLTensor &given) {
    static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20);
    // device, ndim and dtype lie side by side: two comparisons.
    uint64_t ours[2];
    uint64_t theirs[2];
    std::memcpy(ours, &expected.tensor.device, sizeof ours);
    std::memcpy(theirs, &given.device, sizeof theirs);
    if (((ours[0] ^ theirs[0]) | (ours[1] ^ theirs[1])) != 0 || (given.strides != nullptr) != expected.given_strides) {
        return false;
    }
    int64_t differs = 0;
    const int32_t ndim = given.ndim;
    for (int32_t d = 0; d < ndim; ++d) {
        differs |= given.shape[d] ^ expected.shape[static_cast<size_t>(d)];
    }
    if (given.strides != nullptr) {
        for (int32_t d = 0; d < ndim; ++d) {
            differs |= given.strides[d] ^ expected.strides[static_cast<size_t>(d)];
        }
    }
    return differs == 0;
}

inline bool match_tensor(const TensorShape &expected, const DLTensor *given, void **data, uint64_t &bits,
                         uint64_t &wrong) {
    if (given == nullptr || expected.absent) {
        *data = nullptr;
        return given == nullptr && expected.absent;
    }
    if (!same_shape(expected, *given)) {
        return false;
    }
    const uint64_t address = reinterpret_cast<uint64_t>(given->data) + given->byte_offset;
    const bool empty = expected.extent == 0;
    wrong |= (address & expected.alignment_mask) | static_cast<uint64_t>(given->data == nullptr && !empty);
    *data = empty ? nullptr : reinterpret_cast<void *>(address);
    bits |= empty ? 0 : address;
    return true;
}

bool same_attribute_value(const opdock_value &expected, const opdock_value &given);

// Whether `args` look like the memo's call; fills `pointers` when they do. With `check_pointers`, pointers that are
// null, misaligned or overlap make it false too, so that validation names the fault.
inline bool match(const Memo &memo, const opdock_args &args, Pointers &pointers, bool check_pointers) {
    if (args.struct_size != OPDOCK_STRUCT_SIZE(opdock_args, workspace_size) || args.flags != 0 ||
        args.n_inputs != memo.given_inputs || args.n_outputs != memo.given_outputs ||
        args.n_attributes != memo.given.size() || args.n_lists != memo.list_sizes.size()) {
        return false;
    }
    for (uint32_t i = 0; i < args.n_lists; ++i) {
        if (args.list_sizes[i] != memo.list_sizes[i]) {
            return false;
        }
    }
    uint64_t wrong = 0;
    const TensorShape *tensors = memo.shape.tensors.get();
    for (uint32_t i = 0; i < args.n_inputs; ++i) {
        if (!match_tensor(tensors[i], args.inputs[i], &pointers.data[i], pointers.bits, wrong)) {
            return false;
        }
    }
    for (uint32_t i = args.n_inputs; i < memo.shape.n_input_tensors; ++i) {
        pointers.data[i] = nullptr;
    }
    const uint32_t outputs = memo.shape.n_input_tensors;
    for (uint32_t i = 0; i < args.n_outputs; ++i) {
        if (!match_tensor(tensors[outputs + i], args.outputs[i], &pointers.data[outputs + i], pointers.bits, wrong)) {
            return false;
        }
    }
    for (uint32_t i = outputs + args.n_outputs; i < memo.shape.n_tensors; ++i) {
        pointers.data[i] = nullptr;
    }
    for (uint32_t i = 0; i < args.n_attributes; ++i) {
        const Memo::GivenAttribute &expected = memo.given[i];
        const opdock_value &value = args.attributes[i];
        if (value.type != expected.type || expected.named != (args.attribute_names != nullptr) ||
            (expected.named && std::strcmp(args.attribute_names[i], expected.name.c_str()) != 0) ||
            (expected.same_value && !same_attribute_value(memo.shape.attributes[expected.position], value))) {
            return false;
        }
    }
    if (memo.reads_device && !same_device(args.device, memo.shape.device)) {
        return false;
    }
    for (const Memo::Pair &pair : memo.pairs) {
        const uint64_t a = reinterpret_cast<uint64_t>(pointers.data[pair.a]);
        const uint64_t b = reinterpret_cast<uint64_t>(pointers.data[pair.b]);
        const auto extent_a = static_cast<uint64_t>(tensors[pair.a].extent);
        const auto extent_b = static_cast<uint64_t>(tensors[pair.b].extent);
        if (a < b + extent_b && b < a + extent_a) {
            pointers.aliased |= a == b && pair.may_alias;
            wrong |= static_cast<uint64_t>(a != b || !pair.may_alias);
        }
    }
    if (check_pointers && wrong != 0) {
        return false;
    }
    for (uint32_t i = 0; i < args.n_attributes; ++i) {
        const Memo::GivenAttribute &expected = memo.given[i];
        if (!expected.same_value) {
            opdock_value &value = pointers.attributes[expected.position];
            if (value.type != expected.type) { // an int where a float is expected
                value.as.f = static_cast<double>(args.attributes[i].as.i);
            } else {
                value.as = args.attributes[i].as;
            }
        }
    }
    return true;
}

} // namespace opdock::core
