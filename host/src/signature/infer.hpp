// Infers the outputs of a call, for callers that want them allocated.
#pragma once

#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"
#include "signature/solve.hpp"

namespace opdock::core {

// Returns outputs in signature order, lists flattened. Reads only inputs (without data and device) and attributes;
// names belong to `signature`. Omits an optional output whose dims or dtype depend on an absent input. Throws
// Error(OPDOCK_INVALID_ARGUMENT).
std::vector<InferredOutput> infer_outputs(const Signature &signature, const opdock_args &args);

} // namespace opdock::core
