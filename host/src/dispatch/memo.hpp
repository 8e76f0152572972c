// A call that was validated, remembered: a later call that looks the same is valid too.
//
// Validation depends on dtypes, shapes, strides and devices, not on pointers or values of attributes, and most calls of
// an op repeat one of a few shapes. So a call is compared with the last ones of its thread, field by field, which is a
// fraction of the work of validating it; what depends on pointers (null, alignment, overlap) is checked each time. A
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

// A tensor as quick_call.hpp compares it.
struct QuickTensor {
    alignas(16) uint64_t head[2]; // device, ndim and dtype as they lie in a DLTensor
    std::array<int64_t, OPDOCK_MAX_RANK> shape;
    std::array<int64_t, OPDOCK_MAX_RANK> strides;
    uint64_t misaligned; // bits that must be 0 in the address
    uint64_t extent;     // bytes
    int32_t rank;
    uint32_t alias; // the tensor it may be the same as; its own number when there is none
    bool absent;
    bool written;
};

struct Memo;

// How a call is compared with a memo and made, see quick_call.hpp.
struct QuickWay {
    // Makes the call when it matches, and goes on looking when not. In this order because the first three are in these
    // registers already.
    opdock_status (*call)(const Target &target, OpEntry &op, const opdock_args &args, Memo &memo);
    // False when it does not match.
    bool (*attempt)(Memo &memo, const opdock_args &args, opdock_status *status);
};

struct Memo {
    // Calls with more tensors take the long way each time.
    static constexpr size_t max_tensors = 12;

    // `struct_size` is the one the caller gave; `args` has all fields.
    Memo(std::shared_ptr<const Chain> of, const Bound &bound, const opdock_args &args, uint32_t struct_size,
         CallHost &host);

    struct GivenAttribute {
        uint32_t type;     // the tag the caller used
        uint32_t position; // in the signature
        bool same_value;   // the memo holds for this value only
        bool named;
        bool promoted; // an int where a float is expected
        bool special;  // any of the three: more than a value is to be looked at
        std::string name;
    };
    // What a quick call reads, and where it puts what the kernel is given. Nothing but its kernel has to be called for
    // the head of the chain, once there is a head.

    QuickWay quick;
    // The fields of opdock_args before `inputs`, which say what else there is.
    std::array<uint64_t, 3> counts;
    Attempt *head = nullptr;
    opdock_kernel kernel = nullptr; // the head's, on its device
    opdock_call call = {};
    opdock_value *attributes = nullptr; // the head's
    std::array<void *, max_tensors> data;
    std::array<QuickTensor, max_tensors> quick_tensors; // inside, to be a load nearer

    const Chain &chain;
    uint32_t n_inputs;         // as the caller gave them
    bool repeats = true;       // may be matched without validating
    bool reads_device = false; // no tensor tells the device: the arguments do
    CallShape shape;
    std::vector<GivenAttribute> given;
    std::vector<uint32_t> list_sizes;
    std::vector<std::unique_ptr<Attempt>> attempts; // one for each link of the chain, made ready when first tried
    std::shared_ptr<const Chain> kept_chain;        // the same as `chain`

    // The first attempt is ready and plain: from now on quick calls go to it.
    void take_quickly(Attempt &first);

  private:
    void expect_tensors();
};

// What a matching call has that the memo does not.
struct Pointers {
    void **data;              // shape.n_tensors of them
    opdock_value *attributes; // the signature's, defaults filled in
    bool aliased = false;     // an output is its `~` input
};

// A string or a list, which is the caller's.
inline bool points_elsewhere(const opdock_value &value) {
    return value.type == OPDOCK_VALUE_STRING || value.type >= OPDOCK_VALUE_INTS;
}

bool same_attribute_value(const opdock_value &expected, const opdock_value &given);

// Takes a value that may have a name, or change its type, or be one that the memo (with these `values`) holds for only
// when it is the same.
bool take_attribute(const Memo::GivenAttribute &expected, const std::vector<opdock_value> &values,
                    const opdock_attribute &given, opdock_value &into);

// Whether `args` look like the memo's call; fills `pointers` when they do. For a call that was validated: pointers are
// not looked at.
bool matches(const Memo &memo, const opdock_args &args, Pointers &pointers);

} // namespace opdock::core
