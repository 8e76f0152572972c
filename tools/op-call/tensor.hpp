// Tensors in memory, aligned as frameworks align theirs, so that a kernel that requires 64 bytes does not decline
// because of a tool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "op-call/source.hpp"
#include "tensor_files.hpp"

namespace opdock::op_call {

// A tensor is larger than the available memory.
struct NoMemory : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct HostTensor {
    static constexpr std::align_val_t alignment{256};
    struct Free {
        void operator()(std::byte *first) const { ::operator delete(first, alignment); }
    };

    // Filled with zeros. Throws NoMemory.
    HostTensor(uint32_t dtype, std::vector<int64_t> shape);

    uint32_t dtype;
    std::vector<int64_t> shape;
    size_t bytes;
    size_t values;                     // number of elements, or twice that if they are pairs
    std::vector<int64_t> strides = {}; // as in MadeUp
    std::unique_ptr<std::byte, Free> memory;
};

// Filled from the seed alone: the same numbers on every machine. They repeat after about four million.
HostTensor make_up(const MadeUp &made_up, uint64_t seed);

// `parameter` names the tensor in a .safetensors file if the source does not. Throws files::Error.
HostTensor read_tensor(const FilePart &file, const std::string &parameter);

// Converts to the form that the file libraries take.
files::TensorData to_file(const HostTensor &tensor, const std::string &name);

} // namespace opdock::op_call
