// What an implementation is tried with.
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
    huge,         // exponentials of them overflow, sums of squares in f32 do not
    sparse,       // half of them zeros, of both signs
    constant,     // all alike: rows without variance
    infinite,     // some are infinite, where that has a meaning
    denormal,     // of the dtype: below its smallest normal number
    not_a_number, // some of one input, in some rows; the other inputs are normal
    rows,         // each row of one input has another magnitude; the other inputs are normal
};

enum class Layout {
    contiguous,
    misaligned, // contiguous, and the first element at an odd multiple of its size
    padded,     // a gap after each row
    transposed, // the last two dims the other way round
    scattered,  // every third element, along all dims
    distant,    // elements more than 2^31 elements apart
    mixed,      // each tensor another one of those up to scattered
};

enum class Exercise {
    call,     // once from end to end
    in_place, // outputs that may be an input are it
    same,     // inputs that may be one tensor are
    threads,  // several at once
    configs,  // with each config of the tune file
    batches,  // its rows in batches of 1 to all of them
};

// A value for each dtype variable.
using Dtypes = std::map<std::string, uint32_t>;

struct Case {
    size_t index = 0; // among those of one implementation of one op
    Dtypes dtypes = {};
    std::string tuple = {}; // the same as text, "bf16,f32"
    Shapes shapes = {};
    std::vector<Shapes> beside = {};                         // of the other threads, in turn; none: the same
    std::vector<op_call::AttributeArgument> attributes = {}; // those that are not at their default
    std::string attributes_text = {};                        // " eps=0.01"
    bool is_doubtful = false; // its attributes may make it no call of the op, which the reference says
    Values values = Values::normal;
    std::string values_of = {}; // the input that alone has the values; "": each that they have a meaning for
    bool only_usual = false;    // of its rows, those of unusual magnitudes are ordinary for once
    double nan_as = 0;          // what values that are NaN are multiples of for once; 0: they are NaN
    Layout layout = Layout::contiguous;
    Exercise exercise = Exercise::call;
    std::vector<std::string> without = {}; // optional tensors that are left out
    uint64_t seed = 0;

    bool has(const op_call::Parameter &parameter) const;
};

// Of the inputs of a case.
struct Extent {
    uint64_t elements = 0; // of the largest
    uint64_t dims = 0;     // of the one with the most
};

// What is known of an implementation from outside.
struct Subject {
    std::string op;
    std::string signature; // as its plugin, or another that is there, declares it
    std::string impl_id;
    std::string device; // "cpu:0"
    std::vector<std::string> tuples;
    bool deterministic = false;
    bool batch_invariant = false;
    bool needs_contiguous = false;
    uint32_t alignment = 0; // bytes; 0: the size of the dtype
    bool has_knobs = false;
    std::string reference;         // impl_id of a plugin's own, for an op of a vendor's own; "": opdock's, or none
    bool brings_reference = false; // that is its own plugin's
};

// What every case of an implementation has, as the command line says it.
struct Pinned {
    std::vector<op_call::AttributeArgument> attributes = {};
    std::vector<Shapes> shapes = {}; // one, or none: not pinned
};

// Whose names opdock gives, and for which it alone has references.
bool is_standard(const std::string &op);

// The optional tensors and the attributes that a plugin's declaration appends to a standard op. The reference does not
// know them: no call has them, or another value than the default.
std::vector<std::string> appended_to_standard(const op_call::Signature &signature);

// The cases follow from the seed and the signature. `takes`: whether the op takes f32 inputs of these shapes;
// `takes_bare`: the same without optional inputs, or null: there are no cases of round sizes.
std::vector<Case> cases_for(const Subject &subject, const op_call::Signature &signature, uint64_t seed,
                            const Takes &takes, const Pinned &pinned = {}, const Takes &takes_bare = nullptr);

Extent extent_of(const Case &one, const op_call::Signature &signature);

// "bf16: input [3,17], weight [17], eps=0.01, huge values, padded"
std::string label_of(const Case &one, const op_call::Signature &signature);

// Of a tuple as text, "bf16,f32".
Dtypes dtypes_of(const op_call::Signature &signature, const std::string &tuple);

// The dtype of what a signature calls "T" or "f32".
uint32_t dtype_in(const std::string &dtype, const Dtypes &dtypes);

} // namespace opdock::plugin_check
