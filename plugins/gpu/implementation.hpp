// What the files of ops/ bring: the functions of one implementation for each op, and the knobs it has.
#pragma once

#include <cstdint>

#include "opdock/plugin.hpp"
#include "opdock/standard_ops.h"
#include "tensors.hpp"

namespace gpu {

// Which knobs a kernel reads; plugin.cu names them and heuristics.cu decides for shapes that nobody tuned.
enum class Knobs {
    none,
    elementwise, // threads of a block, vectors of 16 bytes that each of them has
    rotations,   // threads of a block, rows that each of them has under way
    rows,        // threads of a row and of a block
    row_batches, // the same, for rows that nobody holds
    columns,     // threads of a row in a block, blocks of a compute unit: for sums over rows, whose blocks stay
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

// Functions of one op, as opdock_impl has them; null ones are left out.
struct Implementation {
    opdock_kernel kernel;
    Knobs knobs;
    decltype(opdock_impl::supports) supports = nullptr;
    decltype(opdock_impl::workspace_size) workspace_size = nullptr;
    decltype(opdock_impl::available) available = nullptr;
    opdock::DeviceStateFunctions device_state = {};
    opdock::PlanFunctions plan = {};
    bool any_strides = false; // contiguous tensors alone without it
    bool deterministic = true;
    // One that computes it and is opened when it is first asked for: part of the impl_id, and tried before kernels of
    // the plugin's own.
    const char *library = nullptr;
};

// For kernels that read and write tensors by rows, wherever these are; `rows` as supports_rows has it.
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

    // `dtypes` as in opdock_impl. All implementations may be captured.
    void add(const opdock::OpDeclaration &op, const char *dtypes, const Implementation &implementation);

  private:
    opdock::Registry &registry_;
};

template<int v>
struct Number {
    static constexpr int value = v;
};

} // namespace gpu
