// Outputs whose filled part is counted by another output (docs/signatures.md): the rest, past the count, may be
// anything, and is compared as 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compare.hpp"
#include "op-call/signature.hpp"

namespace opdock::plugin_check {

// Clears the uncounted part in the outputs of one call.
void clear_uncounted(const op_call::Signature &signature, std::vector<Output> &outputs);

} // namespace opdock::plugin_check
