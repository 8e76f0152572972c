// Interface of the files in ops/: the functions of an implementation of each op, and its knobs.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"
#include "tensors.hpp"

namespace gpu {

// The knobs that a kernel reads; plugin.cu names them, and heuristics.cu has their defaults for untuned shapes.
enum class Knobs {
    none,
    elementwise, // threads per block, 16-byte vectors per thread
    rotations,   // threads per block, rows in flight per thread
    rows,        // threads per row and per block
    row_batches, // the same, for rows that are not held in registers
    columns,     // for sums over rows with resident blocks: threads per row in a block, blocks per compute unit
};

struct ElementwiseKnobs {
    int threads, unroll;

    static ElementwiseKnobs of(const opdock::Problem &problem) {
        return {static_cast<int>(problem.knob(0)), static_cast<int>(problem.knob(1))};
    }
};

struct RowKnobs {
    int threads, block;

    static RowKnobs of(const opdock::Problem &problem) {
        return {static_cast<int>(problem.knob(0)), static_cast<int>(problem.knob(1))};
    }
};

struct ColumnKnobs {
    int threads, blocks_per_unit;

    static ColumnKnobs of(const opdock::Problem &problem) {
        return {static_cast<int>(problem.knob(0)), static_cast<int>(problem.knob(1))};
    }
};

// Functions of one op, as in opdock_impl; null ones are left out.
struct Implementation {
    opdock_kernel kernel;
    Knobs knobs;
    decltype(opdock_impl::supports) supports = nullptr;
    decltype(opdock_impl::workspace_size) workspace_size = nullptr;
    decltype(opdock_impl::available) available = nullptr;
    opdock::DeviceStateFunctions device_state = {};
    opdock::PlanFunctions plan = {};
    bool any_strides = false; // if false, only contiguous tensors
    bool deterministic = true;
    // A library that computes the op and is opened at its first use. Its name is part of the
    // impl_id, and it is tried before the plugin's own kernels.
    const char *library = nullptr;
};

// For kernels that access tensors by rows with any strides; `rows` is as in supports_rows().
template<uint32_t rows>
Implementation by_rows(opdock_kernel kernel, Knobs knobs,
                       decltype(opdock_impl::workspace_size) workspace_size = nullptr) {
    Implementation implementation = {kernel, knobs, opdock::supports<&supports_rows<rows>>, workspace_size};
    implementation.any_strides = true;
    return implementation;
}

// The plugin under registration.
class Plugin {
  public:
    explicit Plugin(opdock::Registry &registry) : registry_(registry) {}

    // `dtypes` is as in opdock_impl. All implementations can be captured.
    void add(const opdock::OpDeclaration &op, const char *dtypes, const Implementation &implementation);

  private:
    opdock::Registry &registry_;
};

template<int v>
struct Number {
    static constexpr int value = v;
};

} // namespace gpu
