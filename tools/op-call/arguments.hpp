// What a command line gives for a call, put against the op's signature: every name known, every needed input there,
// every value of its type.
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
    std::vector<std::vector<Source>> inputs; // one for each parameter, empty where it is absent
    std::vector<AttributeArgument> attributes;
    std::vector<std::string> wanted_outputs = {}; // optional ones
};

// Throws cli::UsageError, with what the op expects when something is missing.
Arguments match(const std::vector<Named> &inputs, const std::vector<Named> &attributes, const Signature &signature,
                const Spelling &spelling);

// The names themselves. Throws cli::UsageError unless each is of an optional output, and there once.
std::vector<std::string> match_outputs(const std::vector<std::string> &names, const Signature &signature,
                                       const Spelling &spelling);

AttributeArgument parse_attribute(const AttributeParameter &parameter, const std::string &text);

// Gives random integers without a range 0 to the smallest dim of the other inputs: an index into any of those. 0 alone
// where there are no others.
void guess_ranges(Arguments &arguments);

// Throws cli::UsageError for an argument that `signature` does not have; `known` are those it has.
[[noreturn]] void unknown_argument(const std::string &option, const std::string &name,
                                   const std::vector<std::string> &known, const Signature &signature,
                                   const Spelling &spelling);

} // namespace opdock::op_call
