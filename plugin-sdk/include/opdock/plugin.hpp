// SPDX-License-Identifier: Apache-2.0
// Everything a plugin needs, in C++17, on top of opdock/plugin.h. Header-only; nothing here crosses the ABI.
//
//   floats.hpp       half_t, bfloat16_t
//   float8.hpp       e4m3_t, e5m2_t, visit_float8
//   dtype.hpp        visit_floating: from dtypes to types
//   tensor_view.hpp  TensorView, Row
//   status.hpp       Status, Failure
//   problem.hpp      Problem and Call: what kernels and callbacks get
//   firewall.hpp     kernel<&f>, heuristic<&f>, ...: C functions that let no exception out
//   op.hpp           OpDeclaration; the standard ones are in opdock/standard_ops.h
//   registry.hpp     Impl, Registry, register_plugin
#ifndef OPDOCK_PLUGIN_HPP
#define OPDOCK_PLUGIN_HPP

/* IWYU pragma: begin_exports */
#include "opdock/cpp/dtype.hpp"
#include "opdock/cpp/firewall.hpp"
#include "opdock/cpp/float8.hpp"
#include "opdock/cpp/floats.hpp"
#include "opdock/cpp/op.hpp"
#include "opdock/cpp/problem.hpp"
#include "opdock/cpp/registry.hpp"
#include "opdock/cpp/status.hpp"
#include "opdock/cpp/tensor_view.hpp"
#include "opdock/plugin.h"
/* IWYU pragma: end_exports */

#endif
