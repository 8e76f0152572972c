// The arguments of a call from the command line, matched against the op's signature: every name is known, every
// required input is present, every value has the right type.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include <dlpack/dlpack.h>

#include "op-call/named.hpp"
#include "op-call/signature.hpp"
#include "op-call/source.hpp"
#include "op-call/spelling.hpp"

namespace opdock::op_call {

struct AttributeArgument {
    std::string name;
    std::variant<int64_t, double, bool, std::string, DLDataType, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>>
        value;
};

struct Arguments {
    std::vector<std::vector<Source>> inputs; // one per parameter; empty where absent
    std::vector<AttributeArgument> attributes;
    std::vector<std::string> wanted_outputs = {}; // the optional ones
};

// Throws cli::UsageError; if something is missing, the message says what the op expects.
Arguments match(const std::vector<Named> &inputs, const std::vector<Named> &attributes, const Signature &signature,
                const Spelling &spelling);

// Returns `names`. Throws cli::UsageError unless each is the name of an optional output and occurs once.
std::vector<std::string> match_outputs(const std::vector<std::string> &names, const Signature &signature,
                                       const Spelling &spelling);

AttributeArgument parse_attribute(const AttributeParameter &parameter, const std::string &text);

// Gives random integers without a range the values from 0 up to the smallest dim of the other inputs, so that they are
// valid indices into any of them. Only 0 if there are no other inputs.
void guess_ranges(Arguments &arguments);

// Throws cli::UsageError for an argument that `signature` does not have; `known` lists the ones it has.
[[noreturn]] void unknown_argument(const std::string &option, const std::string &name,
                                   const std::vector<std::string> &known, const Signature &signature,
                                   const Spelling &spelling);

} // namespace opdock::op_call
