// Ops of a host as ops of torch's dispatcher: torch.ops.opdock.NAME. What torch needs beside the kernels (schemas, fake
// implementations, gradients) is in python/opdock/torch.
#pragma once

#include <memory>
#include <string>

#include "form.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

// Implements opdock::`name`, which is defined with a schema for `form`, for CPU, CUDA and PrivateUse1: with all
// outputs, or with those that the signature requires. Host and op stay for the process.
void implement_torch_op(const std::shared_ptr<Host> &host, const Op &op, const Form &form, const std::string &name,
                        bool all_outputs);

// Has a host take workspaces, and what plugins keep, from torch: a CUDA graph that torch captures keeps them then.
void use_torchs_memory(Options &options);

} // namespace opdock::python
