// One custom call of XLA for all ops of a host: opdock.jax passes the op's name as an attribute.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "form.hpp"
#include "opdock/opdock.hpp"

namespace opdock::python {

// Registers the op with the handlers. The op and its host stay for the process: compiled programs may call it any time.
void keep_for_jax(const std::shared_ptr<Host> &host, const Op &op, const std::shared_ptr<const Form> &form);

// The handlers for CPUs and for GPUs, as jax.ffi.register_ffi_target takes them.
nanobind::tuple jax_handlers();

} // namespace opdock::python
