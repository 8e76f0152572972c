// What the outputs of a call look like, for callers that want them allocated.
#pragma once

#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"
#include "signature/solve.hpp"

namespace opdock::core {

// In signature order, lists flattened. Reads inputs (no data, no device) and attributes only; names belong to
// `signature`. An optional output whose dims or dtype only an absent input would tell is left out. Throws
// Error(OPDOCK_INVALID_ARGUMENT).
std::vector<InferredOutput> infer_outputs(const Signature &signature, const opdock_args &args);

} // namespace opdock::core
