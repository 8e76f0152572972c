// An op's signature as opdock_signature_json gives it, and the arguments it requires on a command line.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/page.hpp"
#include "op-call/spelling.hpp"
#include "opdock/opdock.hpp"

namespace opdock::op_call {

struct Parameter {
    std::string name;
    std::string dtype;             // "f32", or a dtype variable
    std::vector<std::string> dims; // "...", "2*n"
    bool optional = false;
    bool list = false;
    bool mut = false;
    bool host = false; // in host memory, whatever the call's device

    std::string type() const; // "T[..., n]*"
};

struct AttributeParameter {
    std::string name;
    std::string type;          // int, float, bool, string, dtype, or a list: int[], float[], string[]
    nlohmann::json by_default; // null: required or optional
    bool optional = false;
    std::string variable; // the dtype variable that this attribute sets, or ""

    bool is_required() const { return by_default.is_null() && !optional; }
};

struct Signature {
    std::string op;
    std::string text;
    std::vector<Parameter> inputs;
    std::vector<Parameter> outputs;
    std::vector<AttributeParameter> attributes;
    std::vector<std::string> dtype_variables;
};

Signature read_signature(const nlohmann::json &json);
Signature signature_of(const Op &op);

// The signature, in lines of `width`, and a line for each argument, with the ones in `missing` marked. Has no newline
// at the end.
std::string expected_arguments(const Signature &signature, const std::vector<std::string> &missing,
                               const Spelling &spelling, size_t width = cli::Page::usual_width);

// The same with the op's name and the forms of inputs, laid out for stdout, for users who ask what an op expects.
std::string expected_text(const Signature &signature, const Spelling &spelling);

} // namespace opdock::op_call
