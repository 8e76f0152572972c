// The dims of a signature's tensors, as far as they are needed to generate shapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::op_call {

// The sizes of dim names, "..." included.
using Sizes = std::map<std::string, int64_t>;

// In order of appearance, each name once.
std::vector<std::string> names_in(std::string_view dim);

// Returns nothing for a name without a size, for a division by zero, and for text that is not an expression.
std::optional<int64_t> evaluate(std::string_view dim, const Sizes &sizes);

} // namespace opdock::op_call
