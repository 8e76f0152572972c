// A call to be measured, as the user wrote it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "op-call/named.hpp"

namespace opdock::op_call {

// One shape of one op, as text; it is not yet checked against the op.
struct Subject {
    std::string op;
    std::string impl; // "": none was requested
    std::vector<Named> inputs;
    std::vector<Named> attributes;
    std::vector<std::string> outputs = {}; // the optional ones that are requested
    std::string place = {};                // "shapes.yaml:3:5", the position of the request; "": the command line
    std::vector<Named> strides = {};       // "[1,4]" or "packed", for each tensor of these parameters, in order
    // For a call recorded by a host (PLUGIN_RECORD): its device, "cuda:0", and its server. "": written by hand.
    std::string recorded_on = {};
    std::string served_by = {};

    bool is_recorded() const { return !recorded_on.empty(); }
};

// {"op", "inputs": [{"name", "source"}], "attributes": [{"name", "value"}], "outputs": [NAME]}, and "strides":
// [{"name", "strides"}] if there are any.
nlohmann::json subject_json(const Subject &subject);

// "rmsnorm_fwd input=f32[4,8] weight=f32[8] strides(input)=[1,4] eps=1e-6 +rsigma", from a subject or its JSON,
// including older JSON without "outputs".
std::string label_of(const Subject &subject);
std::string label_of(const nlohmann::json &subject);

// Checks that a command line says in exactly one way what to measure: by an op with its call, by --shapes or by --all.
// Returns true if only an op is given, which asks what it expects. `verb` is "tune" or "time". Throws cli::UsageError.
bool asks_what_is_expected(const cli::CommandLine &line, const std::vector<std::string> &ops, const std::string &verb);

} // namespace opdock::op_call
