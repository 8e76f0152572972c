// A call that a tool measures, as its user wrote it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "op-call/named.hpp"

namespace opdock::op_call {

// One shape of one op, as text; whether it fits the op is the next question.
struct Subject {
    std::string op;
    std::string impl; // "": none was asked for
    std::vector<Named> inputs;
    std::vector<Named> attributes;
    std::vector<std::string> outputs = {}; // optional ones that are asked for
    std::string place = {};                // "shapes.yaml:3:5", where it was asked for; "" is the command line
    std::vector<Named> strides = {};       // "[1,4]" or "packed", of each tensor of these parameters, in order
    // Of a call that a host recorded (PLUGIN_RECORD): the device, "cuda:0", and who served it. "": somebody wrote it.
    std::string recorded_on = {};
    std::string served_by = {};

    bool is_recorded() const { return !recorded_on.empty(); }
};

// {"op", "inputs": [{"name", "source"}], "attributes": [{"name", "value"}], "outputs": [NAME]}, and "strides":
// [{"name", "strides"}] where there are any
nlohmann::json subject_json(const Subject &subject);

// "rmsnorm_fwd input=f32[4,8] weight=f32[8] strides(input)=[1,4] eps=1e-6 +rsigma", of a subject and of its JSON, also
// of before there were outputs.
std::string label_of(const Subject &subject);
std::string label_of(const nlohmann::json &subject);

// Checks that a command line says in one way what to measure: by an op with its call, by --shapes or by --all. True
// where it has an op alone, which asks what that expects. `verb` is "tune" or "time". Throws cli::UsageError.
bool asks_what_is_expected(const cli::CommandLine &line, const std::vector<std::string> &ops, const std::string &verb);

} // namespace opdock::op_call
