// Whether a plugin registers the same twice.
#pragma once

#include <optional>
#include <string>

#include "load/registration.hpp"

namespace opdock::core {

// The first thing in which two registrations differ, as a sentence; nothing when they are the same. Functions are the
// same when both are there or neither is.
std::optional<std::string> find_difference(const Registration &before, const Registration &now);

} // namespace opdock::core
