// The minimum data movement and computation of a call, from its signature.
#pragma once

#include <cstdint>
#include <optional>

#include "op-call/call.hpp"

namespace opdock::plugin_bench {

// Each input is read once and each output written once; inputs that the op writes count twice. Data that a kernel reads
// again, keeps in a workspace or skips does not matter: this is the minimum for the result.
uint64_t compulsory_bytes(const op_call::Signature &signature, const op_call::Operands &inputs,
                          const op_call::Operands &outputs);

// 2 m n k for matmul and the linear ops, from the dims that the signature names. Nothing for other ops, which move more
// data than they compute.
std::optional<double> flops_of(const op_call::Signature &signature, const op_call::Operands &inputs);

} // namespace opdock::plugin_bench
