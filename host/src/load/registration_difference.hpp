// Comparison of two registrations of the same plugin.
#pragma once

#include <optional>
#include <string>

#include "load/registration.hpp"

namespace opdock::core {

// The first difference between two registrations, as a sentence; nullopt if they are equal. Functions count as equal if
// both or neither are present.
std::optional<std::string> find_difference(const Registration &before, const Registration &now);

} // namespace opdock::core
