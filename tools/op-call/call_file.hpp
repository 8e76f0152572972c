// A call with the contents of its tensors, from a file that a host wrote (PLUGIN_CALL_FILES).
// host/src/observe/call_files.hpp describes the contents.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "op-call/call.hpp"
#include "op-call/named.hpp"
#include "tensor_files.hpp"

namespace opdock::op_call {

struct CallFile {
    std::string path;
    std::string op;
    std::string device;     // "cuda:0"
    std::string impl;       // the one that served the call
    std::string shadow;     // the one that repeated the computation; "" if none did
    std::string difference; // between the two
    std::vector<Named> attributes;
    std::vector<std::string> outputs; // the optional ones
    std::map<std::string, std::vector<int64_t>> strides;
    std::vector<files::TensorData> tensors;

    // Returns null if there is none.
    const files::TensorData *find(const std::string &name) const;
    // "cuda"
    std::string device_type() const { return device.substr(0, device.find(':')); }
    // "'vendor.acme' on cuda:0; its shadow 'reference.cpp' disagreed: in 'output', element 17 is 0.25, expected 0.125"
    std::string text() const;
};

// True if a word of a command line names such a file.
bool is_call_file(std::string_view word);

// Throws cli::Failure if it is not such a file.
CallFile read_call_file(const std::string &path);

// The name of a parameter's tensor in the file: the first element of a list has the parameter's name.
std::string name_in_file(const std::string &parameter, size_t element);

// The inputs as they were before the call, row-major. Throws NoMemory, and cli::Failure if a tensor is not one of the
// op's or is missing.
std::vector<Tensors> inputs_of(const CallFile &file, const Signature &signature);

// Arranges the elements of a tensor by the strides that the file has for it. Leaves the tensor as it is if the file has
// none, or if they are negative.
void lay_out(const CallFile &file, const std::string &name, HostTensor &tensor);

// Makes the tensor row-major again, without gaps.
void gather(HostTensor &tensor);

} // namespace opdock::op_call
