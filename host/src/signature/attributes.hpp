// The attributes of one call: in signature order, checked, defaults filled in.
#pragma once

#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"

namespace opdock::core {

// Strings and lists in `values` borrow from `args` or `signature`. Returns how many leading attributes the call uses:
// those up to the last that differs from its default. Throws Error(OPDOCK_INVALID_ARGUMENT). `args` have passed
// check_args.
size_t bind_attributes(const Signature &signature, const opdock_args &args, std::vector<opdock_value> &values);

} // namespace opdock::core
