// Architectures as named by implementations: "sm_90a" is exact; "sm_80+" means this or newer, for device types whose
// architectures end in an increasing number.
#pragma once

#include <string_view>

namespace opdock::core {

// True if `pattern` can be registered: a name, with at most one '+', at the end and after a digit.
bool is_architecture_pattern(std::string_view pattern);

// `architecture` is the device's; if it is empty, nothing matches. Case-insensitive. A letter after the number (the "a"
// of sm_90a) is ignored for "this or newer".
bool architecture_matches(std::string_view pattern, std::string_view architecture, bool ordered);

} // namespace opdock::core
