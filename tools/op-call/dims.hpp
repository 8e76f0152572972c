// The dims of a signature's tensors, as far as making up shapes needs them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::op_call {

// Sizes of names; "..." is one of them.
using Sizes = std::map<std::string, int64_t>;

// In the order of their appearance, each once.
std::vector<std::string> names_in(std::string_view dim);

// Nothing for a name that has no size, a division by zero and what is no expression.
std::optional<int64_t> evaluate(std::string_view dim, const Sizes &sizes);

} // namespace opdock::op_call
