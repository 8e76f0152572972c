// Registers a host's ops as ops of torch's dispatcher: torch.ops.opdock.NAME. The rest that torch needs (schemas, fake
// implementations, gradients) is in python/opdock/torch.
#pragma once

#include <memory>
#include <string>

#include "form.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

// Implements opdock::`name`, defined with a schema for `form`, for CPU, CUDA and PrivateUse1: with all outputs, or with
// the required ones only. Host and op stay for the process.
void implement_torch_op(const std::shared_ptr<Host> &host, const Op &op, const Form &form, const std::string &name,
                        bool all_outputs);

// Makes a host allocate workspaces and plugins' memory from torch, so that a CUDA graph captured by torch keeps them.
void use_torchs_memory(Options &options);

} // namespace opdock::python
