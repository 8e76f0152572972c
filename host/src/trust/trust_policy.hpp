// Trust settings of a policy. They apply to the whole process: loaded code belongs to no device or thread.
#pragma once

#include <string>
#include <string_view>

#include "text/setting_text.hpp"

namespace opdock::core {

enum class Trust {
    off,     // not checked
    warn,    // an untrusted plugin is reported in the log
    require, // an untrusted plugin is rejected
};

std::string_view trust_name(Trust trust);

// Throws Error(OPDOCK_INVALID_POLICY).
Trust parse_trust(std::string_view value, const Place &place);

// One entry of trusted_sha256, in lower case. Throws as parse_trust does.
std::string parse_sha256(std::string_view value, const Place &place);

} // namespace opdock::core
