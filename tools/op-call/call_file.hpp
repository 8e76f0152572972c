// A call with the contents of its tensors, in a file that a host wrote (PLUGIN_CALL_FILES):
// host/src/observe/call_files.hpp says what is in it.
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
    std::string impl;       // that served it
    std::string shadow;     // that computed the same; "": none did
    std::string difference; // of the two
    std::vector<Named> attributes;
    std::vector<std::string> outputs; // optional ones
    std::map<std::string, std::vector<int64_t>> strides;
    std::vector<files::TensorData> tensors;

    // Null where there is none.
    const files::TensorData *find(const std::string &name) const;
    // "cuda"
    std::string device_type() const { return device.substr(0, device.find(':')); }
    // "'vendor.acme' on cuda:0; its shadow 'reference.cpp' disagreed: in 'output', element 17 is 0.25, expected 0.125"
    std::string text() const;
};

// What tells such a file from other words of a command line.
bool is_call_file(std::string_view word);

// Throws cli::Failure for anything but such a file.
CallFile read_call_file(const std::string &path);

// What the file calls a tensor of a parameter: the first of a list has the parameter's name.
std::string name_in_file(const std::string &parameter, size_t element);

// The inputs as they were before the call, row-major. Throws cli::Failure where a tensor is not the op's or one is
// missing, and NoMemory.
std::vector<Tensors> inputs_of(const CallFile &file, const Signature &signature);

// The elements of a tensor in the order of the strides that the file has for it; others where it has none, and where
// they are negative: as they are.
void lay_out(const CallFile &file, const std::string &name, HostTensor &tensor);

// Row-major again, without gaps.
void gather(HostTensor &tensor);

} // namespace opdock::op_call
