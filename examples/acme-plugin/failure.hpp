// For demonstrations: ACME_FAIL=rmsnorm_fwd,silu_and_mul in the environment makes those ops fail.
#pragma once

#include <string_view>

#include "opdock/plugin.hpp"

namespace acme {

// Returns OK unless ACME_FAIL names `op`. Call it before anything is written: the failure is a clean one.
opdock::Status asked_to_fail(std::string_view op);

} // namespace acme
