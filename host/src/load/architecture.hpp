// Architectures as implementations name them: "sm_90a" is exact; "sm_80+" means this or newer, where the device type's
// architectures end in a number that grows.
#pragma once

#include <string_view>

namespace opdock::core {

// Whether `pattern` can be registered: a name, with at most one '+', at the end and after a digit.
bool is_architecture_pattern(std::string_view pattern);

// `architecture` is the device's; nothing matches an empty one. Compared without case. A letter after the number (the
// "a" of sm_90a) does not count for "this or newer".
bool architecture_matches(std::string_view pattern, std::string_view architecture, bool ordered);

} // namespace opdock::core
