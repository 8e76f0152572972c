// What write_cases.py wrote for one op.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor_files.hpp"

namespace numerics {

// Strides in elements; none is row-major without gaps.
using Strides = std::optional<std::vector<std::int64_t>>;

struct Input {
    std::string name;
    opdock::files::TensorData tensor;
    Strides strides;
};

struct Output {
    std::string name;
    std::uint32_t dtype = 0;
    std::vector<std::int64_t> shape;
    Strides strides;
    std::vector<double> expected; // row-major
    double scale = 0;             // errors are relative to the norm of `expected`, or to this when it is larger
    double tolerance = 0;
    double step = 0;                        // as a part of what was expected: one element may be off by this much
    std::optional<std::size_t> in_place_of; // the input whose memory it shares, or which it is
};

struct Case {
    std::string name;
    std::vector<std::optional<Input>> inputs;   // none: absent
    std::vector<std::uint32_t> list_sizes;      // of each parameter that is a list
    std::vector<std::optional<Output>> outputs; // none: not wanted
    std::vector<Output> changed;                // inputs that the op writes, and what becomes of them
    nlohmann::json attributes;                  // an object
    std::string status;                         // what the call must return: "OK", "INVALID_ARGUMENT"
    std::string message;                        // a word its error must have
    bool refused = false;                       // such a call cannot be prepared either
    bool contiguous = true;                     // every tensor of it
};

struct Cases {
    std::int64_t seed = 0;
    std::vector<Case> cases;
};

// Throws std::runtime_error when the op has none.
Cases read_cases(const std::filesystem::path &folder, const std::string &op);

// The ops that have cases.
std::vector<std::string> ops_with_cases(const std::filesystem::path &folder);

} // namespace numerics
