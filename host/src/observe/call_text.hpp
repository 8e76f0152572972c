// A distinct call as text, for traces and records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/registration.hpp"
#include "signature/call_shape.hpp"

namespace opdock::core {

struct CallText {
    struct Tensor {
        std::string name;             // the parameter's: the same for all tensors of a list
        std::string type;             // "f32[4,8]"
        std::vector<int64_t> strides; // in elements; empty: row-major, contiguous
        bool in_list = false;
    };
    struct Attribute {
        std::string name;
        std::string value; // in the syntax of the tools' --attr
    };

    std::string op;
    std::string impl_id; // serves the call
    std::string device;  // "cuda:0"
    std::vector<Tensor> inputs;
    std::vector<Attribute> attributes; // those with non-default values
    std::vector<Tensor> outputs;
    std::vector<std::string> wanted_outputs; // optional outputs that are present
    std::string config;                      // "BLOCK=128"

    // "input=f32[4,8] weight=f32[8] strides(input)=[1,4] eps=1e-06 +rsigma"
    std::string arguments() const;
};

// `attributes`: the values of the call's attributes.
CallText describe_call(const Implementation &implementation, const CallShape &shape,
                       const std::vector<opdock_value> &attributes, std::string device, std::string config);

} // namespace opdock::core
