// A distinct call as text: what traces and records say of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/registration.hpp"
#include "signature/call_shape.hpp"

namespace opdock::core {

struct CallText {
    struct Tensor {
        std::string name;             // of the parameter: the same for all tensors of a list
        std::string type;             // "f32[4,8]"
        std::vector<int64_t> strides; // in elements; empty: row-major without gaps
        bool in_list = false;
    };
    struct Attribute {
        std::string name;
        std::string value; // as --attr of the tools takes it
    };

    std::string op;
    std::string impl_id; // that serves it
    std::string device;  // "cuda:0"
    std::vector<Tensor> inputs;
    std::vector<Attribute> attributes; // those that are not at their default
    std::vector<Tensor> outputs;
    std::vector<std::string> wanted_outputs; // optional ones that are there
    std::string config;                      // "BLOCK=128"

    // "input=f32[4,8] weight=f32[8] strides(input)=[1,4] eps=1e-06 +rsigma"
    std::string arguments() const;
};

// Attributes have the values of the call that `attributes` are of.
CallText describe_call(const Implementation &implementation, const CallShape &shape,
                       const std::vector<opdock_value> &attributes, std::string device, std::string config);

} // namespace opdock::core
