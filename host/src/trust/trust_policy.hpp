// What a policy says of trust. It concerns the process as a whole: code that was loaded belongs to no device or thread.
#pragma once

#include <string>
#include <string_view>

#include "text/setting_text.hpp"

namespace opdock::core {

enum class Trust {
    off,     // nobody asks
    warn,    // a plugin that is not trusted is a line in the log
    require, // it is rejected
};

std::string_view trust_name(Trust trust);

// Throws Error(OPDOCK_INVALID_POLICY).
Trust parse_trust(std::string_view value, const Place &place);

// One entry of trusted_sha256, in lower case. Throws as above.
std::string parse_sha256(std::string_view value, const Place &place);

} // namespace opdock::core
