// A remembered call that passed validation: a later call that looks the same is valid too.
//
// Validation depends on dtypes, shapes, strides and devices, not on pointers or attribute values, and most calls of an
// op repeat one of a few shapes. A call is therefore compared with the last calls of its thread, field by field, for a
// fraction of the cost of validation; checks that depend on pointers (null, alignment, overlap) are made each time. A
// memo belongs to one thread, so nothing here is locked or shared.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/attempt.hpp"
#include "dispatch/chain.hpp"
#include "signature/call_shape.hpp"

namespace opdock::core {

// A tensor in the form that quick_call.hpp compares.
struct QuickTensor {
    alignas(16) uint64_t head[2]; // device, ndim and dtype, laid out as in a DLTensor
    std::array<int64_t, OPDOCK_MAX_RANK> shape;
    std::array<int64_t, OPDOCK_MAX_RANK> strides;
    uint64_t misaligned; // address bits that must be 0
    uint64_t extent;     // bytes
    int32_t rank;
    uint32_t alias; // the tensor it may alias; its own index if there is none
    bool absent;
    bool written;
};

struct Memo;

// Functions that compare a call with a memo and make it, see quick_call.hpp.
struct QuickWay {
    // Makes the call if it matches; looks further if not. This parameter order, because the first
    // three are in these registers already.
    opdock_status (*call)(const Target &target, OpEntry &op, const opdock_args &args, Memo &memo);
    // Returns false if the call does not match.
    bool (*attempt)(Memo &memo, const opdock_args &args, opdock_status *status);
};

struct Memo {
    // Calls with more tensors always take the long way.
    static constexpr size_t max_tensors = 12;

    // `struct_size`: as the caller gave it; `args` has all fields.
    Memo(std::shared_ptr<const Chain> of, const Bound &bound, const opdock_args &args, uint32_t struct_size,
         CallHost &host);

    struct GivenAttribute {
        uint32_t type;     // the caller's type tag
        uint32_t position; // in the signature
        bool same_value;   // the memo holds for this value only
        bool named;
        bool promoted; // an int where a float is expected
        bool special;  // any of the three: more than the value must be handled
        std::string name;
    };
    // Read by a quick call, which also stores the kernel's arguments here. `quick` accepts calls once
    // the chain has a head that needs nothing but its kernel to be called.

    QuickWay quick;
    // The fields of opdock_args before `inputs`, which hold the counts of the arrays.
    std::array<uint64_t, 3> counts;
    Attempt *head = nullptr;
    opdock_kernel kernel = nullptr; // the head's kernel, run on its device
    opdock_call call = {};
    opdock_value *attributes = nullptr; // the head's attributes
    std::array<void *, max_tensors> data;
    std::array<QuickTensor, max_tensors> quick_tensors; // stored inline to save a dependent load

    const Chain &chain;
    uint32_t n_inputs;         // as given by the caller
    bool repeats = true;       // may match without validation
    bool reads_device = false; // no tensor determines the device; the arguments do
    CallShape shape;
    std::vector<GivenAttribute> given;
    std::vector<uint32_t> list_sizes;
    std::vector<std::unique_ptr<Attempt>> attempts; // one per link of the chain, prepared when first tried
    std::shared_ptr<const Chain> kept_chain;        // owns `chain`

    // To be called when the first attempt is ready and plain: quick calls go to it from now on.
    void take_quickly(Attempt &first);

  private:
    void expect_tensors();
};

// The parts of a matching call that the memo does not hold.
struct Pointers {
    void **data;              // shape.n_tensors pointers
    opdock_value *attributes; // in the signature's order, defaults filled in
    bool aliased = false;     // an output is its `~` input
};

// True for a string or a list, which the caller owns.
inline bool points_elsewhere(const opdock_value &value) {
    return value.type == OPDOCK_VALUE_STRING || value.type >= OPDOCK_VALUE_INTS;
}

bool same_attribute_value(const opdock_value &expected, const opdock_value &given);

// Takes a value that may have a name or change its type, or that must equal the one in the memo (with
// these `values`). Returns false if it does not match.
bool take_attribute(const Memo::GivenAttribute &expected, const std::vector<opdock_value> &values,
                    const opdock_attribute &given, opdock_value &into);

// Returns true if `args` look like the memo's call, and fills `pointers`. Only for a validated call:
// pointers are not checked.
bool matches(const Memo &memo, const opdock_args &args, Pointers &pointers);

} // namespace opdock::core
