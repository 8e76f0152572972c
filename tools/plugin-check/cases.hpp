// The cases that an implementation is tried with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "op-call/arguments.hpp"
#include "shapes.hpp"

namespace opdock::plugin_check {

enum class Values {
    normal,
    tiny,         // products of two are below the smallest normal f32
    huge,         // exponentials overflow, sums of squares in f32 do not
    sparse,       // half are zeros, of both signs
    constant,     // all equal: rows without variance
    infinite,     // some are infinite, where an infinity has a meaning
    denormal,     // below the smallest normal number of the dtype
    not_a_number, // some NaN, in some rows of one input; the other inputs are normal
    rows,         // each row of one input has its own magnitude; the other inputs are normal
};

enum class Layout {
    contiguous,
    misaligned, // contiguous, but the first element is at an odd multiple of its size
    padded,     // a gap after each row
    transposed, // the last two dims swapped
    scattered,  // every third element, along all dims
    distant,    // some elements are more than 2^31 elements apart
    mixed,      // padded, transposed, scattered and contiguous in turn, tensor by tensor
};

enum class Exercise {
    call,     // one complete call
    in_place, // outputs use the memory of an input where they may
    same,     // inputs are one tensor where they may
    threads,  // several calls at once
    configs,  // with each config of the tune file
    batches,  // its rows, in batches of 1 up to all of them
};

// A value for each dtype variable.
using Dtypes = std::map<std::string, uint32_t>;

struct Case {
    size_t index = 0; // among the cases of one implementation of one op
    Dtypes dtypes = {};
    std::string tuple = {}; // the same as text, "bf16,f32"
    Shapes shapes = {};
    std::vector<Shapes> beside = {};                         // for the other threads, in turn; empty: the same
    std::vector<op_call::AttributeArgument> attributes = {}; // those that differ from their default
    std::string attributes_text = {};                        // " eps=0.01"
    bool is_doubtful = false; // its attributes may make it an invalid call; the reference tells
    Values values = Values::normal;
    std::string values_of = {}; // the only input with these values; "": each where they have a meaning
    bool only_usual = false;    // rows of unusual magnitudes are replaced by ordinary ones
    double nan_as = 0;          // NaN is replaced by multiples of this; 0: NaN stays
    Layout layout = Layout::contiguous;
    Exercise exercise = Exercise::call;
    std::vector<std::string> without = {}; // optional tensors that are left out
    uint64_t seed = 0;

    bool has(const op_call::Parameter &parameter) const;
};

// The extent of a case's inputs.
struct Extent {
    uint64_t elements = 0; // of the largest input
    uint64_t dims = 0;     // of the input with the most dims
};

// The properties of an implementation that are known from outside.
struct Subject {
    std::string op;
    std::string signature; // as declared by its plugin or by another one present
    std::string impl_id;
    std::string device; // "cpu:0"
    std::vector<std::string> tuples;
    bool deterministic = false;
    bool batch_invariant = false;
    bool needs_contiguous = false;
    uint32_t alignment = 0; // bytes; 0: the size of the dtype
    bool has_knobs = false;
    std::string reference;         // impl_id of a plugin's own, for a vendor's op; "": opdock's, or none
    bool brings_reference = false; // the reference is from the same plugin
};

// The settings that the command line fixes for every case.
struct Pinned {
    std::vector<op_call::AttributeArgument> attributes = {};
    std::vector<Shapes> shapes = {}; // at most one; empty: not pinned
};

// True for ops named by opdock, for which only opdock has references.
bool is_standard(const std::string &op);

// The optional tensors and attributes that a plugin's declaration adds to a standard op. The reference does not know
// them, so no call has them, or another value than the default.
std::vector<std::string> appended_to_standard(const op_call::Signature &signature);

// The cases follow from the seed and the signature. `takes`: true if the op takes f32 inputs of these shapes;
// `takes_bare`: the same without optional inputs; if null, there are no cases of round sizes.
std::vector<Case> cases_for(const Subject &subject, const op_call::Signature &signature, uint64_t seed,
                            const Takes &takes, const Pinned &pinned = {}, const Takes &takes_bare = nullptr);

Extent extent_of(const Case &one, const op_call::Signature &signature);

// "bf16: input [3,17], weight [17], eps=0.01, huge values, padded"
std::string label_of(const Case &one, const op_call::Signature &signature);

// Parses a tuple such as "bf16,f32".
Dtypes dtypes_of(const op_call::Signature &signature, const std::string &tuple);

// The dtype that "T" or "f32" in a signature stands for.
uint32_t dtype_in(const std::string &dtype, const Dtypes &dtypes);

} // namespace opdock::plugin_check
