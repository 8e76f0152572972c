// Which of a call's tensors belongs to which parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "opdock/abi/args.h"
#include "signature/signature.hpp"

namespace opdock::core {

struct Layout {
    uint32_t elements = 0; // of each list that is not absent
    size_t used_inputs = 0;
    size_t used_outputs = 0;
};

// With the fields that the caller left out null. Throws Error(OPDOCK_INVALID_ARGUMENT) when it left out too many.
opdock_args full_args(const opdock_args &given);

// Flags, and pointers that go with their counts. Throws Error(OPDOCK_INVALID_ARGUMENT).
void check_args(const Signature &signature, const opdock_args &args);

// Fills in `tensors` and `first` as Bound has them, of the inputs or of all parameters. Throws on missing and extra
// tensors and on lists of different lengths.
Layout lay_out(const Signature &signature, const opdock_args &args, bool with_outputs,
               std::vector<const DLTensor *> &tensors, std::vector<uint32_t> &first);

} // namespace opdock::core
