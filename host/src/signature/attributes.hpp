// Attributes of one call: in signature order, checked, with defaults filled in.
#pragma once

#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"

namespace opdock::core {

// Strings and lists in `values` borrow from `args` or `signature`. Returns the number of leading attributes that the
// call uses: up to the last one that differs from its default. Throws Error(OPDOCK_INVALID_ARGUMENT). `args` must have
// passed check_args.
size_t bind_attributes(const Signature &signature, const opdock_args &args, std::vector<opdock_value> &values);

} // namespace opdock::core
