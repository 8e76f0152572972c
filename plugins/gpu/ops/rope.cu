// fused_rope_fwd and fused_rope_bwd, rope_positions and rope_positions_bwd, of one tensor and of two (*_qk_*), which
// one kernel rotates.
#include "rope.cuh"

#include <string>

#include "ops/ops.hpp"
#include "position_tables.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

// Splits the work over blocks of `threads`, of which there are at least about `blocks`, so that each computes its
// coefficients for as many rows as can be. Threads have up to `unroll` rows under way.
struct Split {
    Rope shape;
    int unroll;
    Grid grid;
};

Split split(Rope shape, int N, int threads, int unroll, int64_t blocks, bool in_place) {
    shape.pairs = shape.rotated / 2 / N;
    shape.columns = shape.pairs + (in_place ? 0 : (shape.dims - shape.rotated) / N);
    // Coefficients of a block: as many floats of each kind, 32 KB together.
    constexpr int most_coefficients = 4096;
    threads = std::min(threads, 512);
    shape.width = std::min({std::max(shape.columns, 1), threads, most_coefficients / (2 * N)});
    shape.width_inverse = static_cast<uint32_t>(ceil_div(int64_t(1) << inverse_bits, shape.width));
    shape.lanes = threads / shape.width;
    shape.tiles = static_cast<uint32_t>(ceil_div(shape.columns, shape.width));
    const int64_t rows = std::max<int64_t>(shape.rows, 1);
    shape.positions_of_block =
        static_cast<int>(std::clamp<int64_t>(shape.lanes / rows, 1, most_coefficients / (2 * N * shape.width)));
    const int64_t groups = ceil_div(shape.positions, shape.positions_of_block) * shape.tiles;
    const int64_t rounds = ceil_div(rows, shape.lanes); // of a block that has all rows
    shape.slices = static_cast<uint32_t>(std::clamp<int64_t>(ceil_div(blocks, groups), 1, rounds));
    while (unroll > 1 && unroll / 2 >= ceil_div(rounds, shape.slices)) {
        unroll /= 2; // threads have no row for it
    }
    const size_t floats = static_cast<size_t>(shape.positions_of_block) * 2 * 2 * static_cast<size_t>(N * shape.width);
    return {shape, unroll, {groups * shape.slices, threads, floats * sizeof(float)}};
}

std::string odd(int64_t rotated) {
    return "freqs: last dimension is " + std::to_string(rotated) +
           "; dimensions are rotated in pairs, so it must be even";
}

// What follows the tensors that are rotated: the angles, or positions and two tables.
template<class Source>
inline constexpr uint32_t source_inputs = std::is_same_v<Source, Angles> ? 1 : 3;

template<class Source>
uint32_t tensor_count(const opdock::Problem &problem) {
    return problem.c().n_inputs - source_inputs<Source>;
}

opdock::Status supports(const opdock::Problem &problem) {
    const uint32_t count = tensor_count<Angles>(problem);
    const int64_t rotated = row_size(*problem.input(count));
    if (rotated % 2 != 0) {
        return opdock::invalid_argument(odd(rotated));
    }
    for (uint32_t i = 0; i < count; ++i) {
        const DLTensor &tensor = *problem.input(i);
        if (!have_dense_rows({&tensor, problem.input(count), problem.output(i)})) {
            return opdock::unsupported(dense_rows_wanted);
        }
        if (tensor.shape[1] * tensor.shape[2] > INT32_MAX) {
            return opdock::unsupported("it needs fewer than 2^31 heads of all batches");
        }
    }
    return {};
}

Layout layout_of(const DLTensor &tensor) {
    DLTensor position = tensor;
    ++position.shape;
    ++position.strides;
    --position.ndim;
    return {tensor.strides[0], *row_steps(position)}; // its rows are dense, and there are at most two dims of them
}

template<class Source>
Source source_of(const opdock::Call &call) {
    if constexpr (std::is_same_v<Source, Angles>) {
        const uint32_t freqs = call.c().n_inputs - 1;
        return {static_cast<const float *>(input_data(call, freqs)), call.input(freqs)->strides[0]};
    } else {
        return tables_of(call);
    }
}

template<class Source>
int64_t rotated_dims(const opdock::Call &call) {
    return (std::is_same_v<Source, Angles> ? 1 : 2) * row_size(*call.input(call.c().n_inputs - 1));
}

// True if all rows are aligned for vectors of `n` elements once the first row is.
bool has_rows_of(int64_t n, const Layout &layout, const DLTensor &tensor) {
    return (tensor.shape[0] <= 1 || layout.position % n == 0) && layout.heads.fit(n);
}

// A thread has one row under way where there are two tensors, or where sines need not be computed.
template<class T, int N, int tensors, class Source, class Visitor>
opdock::Status visit_kernel(int unroll, bool interleaved, Visitor &&visit) {
    if constexpr (tensors == 1 && std::is_same_v<Source, Angles>) {
        if (unroll == 2) {
            return visit(interleaved ? rope_kernel<T, N, 2, true, 1, Source> : rope_kernel<T, N, 2, false, 1, Source>);
        }
        if (unroll > 2) {
            return visit(interleaved ? rope_kernel<T, N, 4, true, 1, Source> : rope_kernel<T, N, 4, false, 1, Source>);
        }
    }
    return visit(interleaved ? rope_kernel<T, N, 1, true, tensors, Source>
                             : rope_kernel<T, N, 1, false, tensors, Source>);
}

template<class Source>
Rope shape_of(const opdock::Call &call, uint32_t i, bool transposed) {
    const DLTensor &tensor = *call.output(i);
    Rope shape = {};
    shape.input = layout_of(*call.input(i));
    shape.output = layout_of(tensor);
    shape.positions = tensor.shape[0];
    shape.rows = tensor.shape[1] * (tensor.ndim == 3 ? 1 : tensor.shape[2]);
    shape.dims = static_cast<int>(row_size(tensor));
    shape.rotated = static_cast<int>(rotated_dims<Source>(call));
    shape.transposed = transposed;
    return shape;
}

// True if all rows of the tensor, of its input and its output, are whole vectors of `n` elements.
bool has_whole_vectors(const opdock::Call &call, uint32_t i, const Rope &shape, int n) {
    return shape.rotated / 2 % n == 0 && shape.dims % n == 0 && has_rows_of(n, shape.input, *call.input(i)) &&
           has_rows_of(n, shape.output, *call.output(i)) && all_aligned(input_data(call, i), output_data(call, i));
}

// Threads that each have one vector of two elements and its partners: so many that all of them run at once.
template<class T, int tensors>
bool has_few_rows(const opdock::Call &call, const Tasks<T, tensors> &tasks) {
    int64_t threads = 0;
    for (const Task<T> &task : tasks.of) {
        const Rope &shape = task.shape;
        threads += shape.positions * shape.rows * (shape.dims - shape.rotated / 2) / 2;
    }
    return threads <= 512 * static_cast<int64_t>(compute_units(call));
}

// `which`: the tensors that are not empty.
template<class Source, bool transposed, int tensors>
opdock::Status rotate(const opdock::Call &call, const uint32_t (&which)[tensors]) {
    const ElementwiseKnobs knobs = ElementwiseKnobs::of(call);
    const bool has_one_row = tensors > 1 || !std::is_same_v<Source, Angles>;
    const int most_unroll = has_one_row ? 1 : knobs.unroll >= 4 ? 4 : knobs.unroll >= 2 ? 2 : 1;
    return visit_floating(call.output(which[0])->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto source = source_of<Source>(call);
        Tasks<T, tensors> tasks;
        bool whole_vectors = true;
        for (int k = 0; k < tensors; ++k) {
            const Rope shape = shape_of<Source>(call, which[k], transposed);
            tasks.of[k] = {shape, static_cast<const T *>(input_data(call, which[k])),
                           static_cast<T *>(output_data(call, which[k]))};
            whole_vectors = whole_vectors && has_whole_vectors(call, which[k], shape, wide<T>);
        }
        // start(N, blocks, kernel_for): at least about so many blocks; kernel_for(unroll, grid, run) runs a kernel.
        const auto start = [&](auto width, int64_t blocks, auto kernel_for) {
            Grid grid = {};
            int unroll = 1;
            for (Task<T> &task : tasks.of) {
                const Split work = split(task.shape, decltype(width)::value, knobs.threads, most_unroll, blocks,
                                         task.input == task.output);
                task.shape = work.shape;
                unroll = work.unroll;
                tasks.blocks_of_first = static_cast<uint32_t>(grid.blocks); // those before the last tensor's
                grid = {grid.blocks + work.grid.blocks, work.grid.threads,
                        std::max(grid.shared_bytes, work.grid.shared_bytes)};
            }
            return kernel_for(unroll, grid, [&](auto *kernel) { return launch(call, grid, kernel, tasks, source); });
        };
        const bool interleaved = call.get_bool(0);
        if (whole_vectors && has_few_rows(call, tasks)) {
            return start(Number<2>{}, INT32_MAX, [&](int /*unroll*/, Grid &grid, auto run) {
                grid.shared_bytes = 0;
                return run(interleaved ? few_rows_kernel<T, 2, true, tensors, Source>
                                       : few_rows_kernel<T, 2, false, tensors, Source>);
            });
        }
        const auto start_by_blocks = [&](auto width) {
            return start(width, 16 * compute_units(call), [&](int unroll, Grid & /*grid*/, auto run) {
                return visit_kernel<T, decltype(width)::value, tensors, Source>(unroll, interleaved, run);
            });
        };
        return whole_vectors ? start_by_blocks(Number<wide<T>>{}) : start_by_blocks(Number<1>{});
    });
}

template<class Source, bool transposed>
opdock::Status rope(const opdock::Call &call) {
    const uint32_t count = tensor_count<Source>(call);
    const bool rotates = rotated_dims<Source>(call) != 0;
    uint32_t which[2] = {0, 0};
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (element_count(*call.output(i)) != 0 && (rotates || input_data(call, i) != output_data(call, i))) {
            which[found++] = i;
        }
    }
    if (found == 2) {
        return rotate<Source, transposed, 2>(call, which);
    }
    return found == 0 ? opdock::Status() : rotate<Source, transposed, 1>(call, {which[0]});
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    Implementation rotation = {opdock::kernel<&rope<Angles, false>>, Knobs::rotations, opdock::supports<&supports>};
    rotation.any_strides = true;
    plugin.add(ops::fused_rope_fwd, any_float, rotation);
    plugin.add(ops::fused_rope_qk_fwd, any_float, rotation);
    rotation.kernel = opdock::kernel<&rope<Angles, true>>;
    plugin.add(ops::fused_rope_bwd, any_float, rotation);
    plugin.add(ops::fused_rope_qk_bwd, any_float, rotation);
    rotation.supports = opdock::supports<&has_dense_rows_at_positions>;
    rotation.kernel = opdock::kernel<&rope<Tables, false>>;
    plugin.add(ops::rope_positions, with_positions, rotation);
    plugin.add(ops::rope_qk_positions, with_positions, rotation);
    rotation.kernel = opdock::kernel<&rope<Tables, true>>;
    plugin.add(ops::rope_positions_bwd, with_positions, rotation);
    plugin.add(ops::rope_qk_positions_bwd, with_positions, rotation);
}

} // namespace gpu
