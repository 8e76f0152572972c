// A call that was validated, remembered: a later call that looks the same is valid too.
//
// Validation depends on dtypes, shapes, strides and devices, not on pointers or values of attributes, and most calls of
// an op repeat one of a few shapes. So a call is compared with the last ones of its thread, field by field, which is a
// fraction of the work of validating it; what depends on pointers (null, alignment, overlap) is checked each time. A
// memo belongs to one thread, so nothing here is locked or shared; only the counters in its attempts are read by
// others.
#pragma once

#include <array>
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

    // `struct_size` is the one the caller gave; `args` has all fields.
    Memo(const Chain &of, const Bound &bound, const opdock_args &args, uint32_t struct_size, Host &host);

    // The first fields of opdock_args, which say what else there is.
    struct Counts {
        uint32_t struct_size, flags, inputs, outputs, attributes, lists;
    };
    struct GivenAttribute {
        uint32_t type;     // the tag the caller used
        uint32_t position; // in the signature
        bool same_value;   // the memo holds for this value only
        bool named;
        bool promoted; // an int where a float is expected
        bool special;  // any of the three
        std::string name;
    };
    // Two tensors that must not overlap, or may only be the same (`output ~ input`).
    struct Pair {
        uint32_t a;
        uint32_t b;
        uint64_t extent_a;
        uint64_t extent_b;
        bool may_alias;
    };
    // A tensor as quick_call.hpp compares it.
    struct Expected {
        uint64_t head[2]; // device, ndim and dtype as they lie in a DLTensor; all ones for an absent tensor
        std::array<int64_t, OPDOCK_MAX_RANK> shape;
        std::array<int64_t, OPDOCK_MAX_RANK> strides;
        uint64_t alignment_mask;
        uint32_t rank;
    };

    const Chain &chain;
    Counts counts;
    // May be matched without validating: small enough, strides given, every tensor has elements.
    bool quick = true;
    // The rank of all tensors, 1 to 4; 0 when they differ or it is larger.
    uint32_t rank = 0;
    bool reads_device = false; // no tensor tells the device
    uint32_t n_given = 0;
    // The first attempt once the quick path may take it: ready, and nothing but its kernel has to be called.
    Attempt *head = nullptr;
    CallShape shape;
    std::vector<GivenAttribute> given;
    std::vector<uint32_t> list_sizes;
    std::vector<Pair> pairs;
    std::vector<Expected> expected;                 // one for each tensor, when quick
    std::vector<std::unique_ptr<Attempt>> attempts; // one for each link of the chain, made ready when first tried

  private:
    void expect_tensors();
    void forbid_overlaps(const Signature &signature);
};

// What a matching call has that the memo does not.
struct Pointers {
    void **data;              // shape.n_tensors of them
    opdock_value *attributes; // the signature's, defaults filled in
    uint64_t bits = 0;        // all data pointers or'ed
    bool aliased = false;     // an output is its `~` input
};

bool same_attribute_value(const opdock_value &expected, const opdock_value &given);

// Takes a value that has a name, or that the memo holds for only when it is the same, or that changes its type.
bool take_special_attribute(const Memo &memo, const Memo::GivenAttribute &given, const opdock_attribute &attribute,
                            opdock_value &into);

// Whether `args` look like the memo's call; fills `pointers` when they do. For a call that was validated: pointers are
// not looked at.
bool matches(const Memo &memo, const opdock_args &args, Pointers &pointers);

} // namespace opdock::core
