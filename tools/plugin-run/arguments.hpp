// A request put against the op's signature: every name known, every needed input there, every value of its type.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <dlpack/dlpack.h>

#include "request.hpp"
#include "signature.hpp"
#include "source.hpp"

namespace opdock::plugin_run {

struct AttributeArgument {
    std::string name;
    std::variant<int64_t, double, bool, std::string, DLDataType, std::vector<int64_t>> value;
};

// A tensor to be shown after the call, and perhaps written.
struct Target {
    size_t element = 0; // of a list parameter
    std::optional<FilePart> file;
};

struct Arguments {
    std::vector<std::vector<Source>> inputs; // one for each parameter, empty where it is absent
    std::vector<AttributeArgument> attributes;
    // One for each parameter; what --out named. `mut` inputs may be named too.
    std::vector<std::vector<Target>> written_inputs;
    std::vector<std::vector<Target>> outputs;
};

// Throws cli::UsageError, with what the op expects when something is missing.
Arguments match(const Request &request, const Signature &signature);

AttributeArgument parse_attribute(const AttributeParameter &parameter, const std::string &text);

} // namespace opdock::plugin_run
