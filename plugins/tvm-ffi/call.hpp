// Calls of a module's function: the callbacks that a plugin's implementations register.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "contents.hpp"
#include "library.hpp"
#include "opdock/plugin.hpp"

namespace tvm_ffi {

// The user_data of an implementation.
struct Entry {
    Implementation implementation;
    Library &(*library)(); // opened on first use
    std::string module;    // path of the module
    std::once_flag looked_up;
    Function function; // set after the first lookup
};

// The arguments of a problem, except for the pointers.
struct Plan {
    struct Tensor {
        DLTensor descriptor;
        std::uint32_t parameter, argument;
    };
    std::vector<Value> values;
    std::vector<Tensor> tensors;
    std::vector<std::vector<std::int64_t>> dims; // of the tensors: shape and strides
    std::vector<std::unique_ptr<std::string>> texts;
    bool is_empty = false; // nothing to write; many launches without blocks would be errors
};

opdock::Status available(const opdock::Device &device);
opdock::Status supports(const opdock::Problem &problem);
opdock::Status make_plan(const opdock::Problem &problem, std::unique_ptr<Plan> &plan);
opdock::Status call(const opdock::Call &call);

} // namespace tvm_ffi
