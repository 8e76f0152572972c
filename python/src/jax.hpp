// One custom call of XLA for all ops of a host: opdock.jax gives it the op's name as an attribute.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "form.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

// Makes it known to the handlers. It and its host stay for the process, as compiled programs may call it at any time.
void keep_for_jax(const std::shared_ptr<Host> &host, const Op &op, const std::shared_ptr<const Form> &form);

// The handlers for CPUs and for GPUs, as jax.ffi.register_ffi_target takes them.
nanobind::tuple jax_handlers();

} // namespace opdock::python
