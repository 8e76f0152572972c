// Outputs of which another output counts how much is filled (docs/signatures.md): what lies past the count may be
// anything, and is compared as 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compare.hpp"
#include "op-call/signature.hpp"

namespace opdock::plugin_check {

// Of the outputs of one call.
void clear_uncounted(const op_call::Signature &signature, std::vector<Output> &outputs);

} // namespace opdock::plugin_check
