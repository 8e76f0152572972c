// What a call has to move and to compute at least, from its signature.
#pragma once

#include <cstdint>
#include <optional>

#include "op-call/call.hpp"

namespace opdock::plugin_bench {

// Each input read once and each output written once; inputs that the op writes count twice. What a kernel reads again,
// keeps in a workspace or skips does not matter: this is what the result needs.
uint64_t compulsory_bytes(const op_call::Signature &signature, const op_call::Operands &inputs,
                          const op_call::Operands &outputs);

// Of matmul and the linear ops: 2 m n k, from the dims that the signature names. Nothing for other ops, which move more
// than they compute.
std::optional<double> flops_of(const op_call::Signature &signature, const op_call::Operands &inputs);

} // namespace opdock::plugin_bench
