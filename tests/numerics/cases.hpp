// The cases that write_cases.py wrote for one op.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor_files.hpp"

namespace numerics {

// Strides in elements; none: row-major without gaps.
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
    double scale = 0;             // errors are relative to the norm of `expected`, or to this if it is larger
    double tolerance = 0;
    double step = 0;                        // tolerance of one element, relative to its expected value
    std::optional<std::size_t> in_place_of; // the input whose memory it shares, or that it is
};

struct Case {
    std::string name;
    std::vector<std::optional<Input>> inputs;   // none: absent
    std::vector<std::uint32_t> list_sizes;      // for each list parameter
    std::vector<std::optional<Output>> outputs; // none: not wanted
    std::vector<Output> changed;                // inputs that the op writes, with their expected content
    nlohmann::json attributes;                  // an object
    std::string status;                         // expected status of the call: "OK", "INVALID_ARGUMENT"
    std::string message;                        // a word that the error message must contain
    bool refused = false;                       // preparing the call must fail too
    bool contiguous = true;                     // all its tensors are contiguous
};

struct Cases {
    std::int64_t seed = 0;
    std::vector<Case> cases;
};

// Throws std::runtime_error if the op has no cases.
Cases read_cases(const std::filesystem::path &folder, const std::string &op);

// The ops for which there are cases.
std::vector<std::string> ops_with_cases(const std::filesystem::path &folder);

} // namespace numerics
