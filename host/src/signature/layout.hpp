// Assignment of a call's tensors to parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"

namespace opdock::core {

struct Layout {
    uint32_t elements = 0; // of each list that is present
    size_t used_inputs = 0;
    size_t used_outputs = 0;
};

// Fields that the caller omitted are null. Throws Error(OPDOCK_INVALID_ARGUMENT) if required fields are missing.
opdock_args full_args(const opdock_args &given);

// Checks flags, and pointers that have counts. Throws Error(OPDOCK_INVALID_ARGUMENT).
void check_args(const Signature &signature, const opdock_args &args);

// Fills `tensors` and `first` as in Bound, for the inputs or for all parameters. Throws on missing and extra tensors
// and on lists of different lengths.
Layout lay_out(const Signature &signature, const opdock_args &args, bool with_outputs,
               std::vector<const DLTensor *> &tensors, std::vector<uint32_t> &first);

} // namespace opdock::core
