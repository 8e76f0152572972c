// fused_rope_fwd and fused_rope_bwd, rope_positions and rope_positions_bwd, for one tensor
// and for two (*_qk_*), all with one kernel.
#include "rope.cuh"

#include <string>

#include "elementwise.cuh"
#include "ops/ops.hpp"
#include "position_tables.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

std::string odd(int64_t rotated) {
    return "freqs: last dimension is " + std::to_string(rotated) +
           "; dimensions are rotated in pairs, so it must be even";
}

// Number of inputs after the rotated tensors: the angles, or the positions and two tables.
template<class Source>
inline constexpr uint32_t source_inputs = std::is_same_v<Source, Angles> ? 1 : 3;

template<class Source>
uint32_t tensor_count(const opdock::Problem &problem) {
    return problem.c().n_inputs - source_inputs<Source>;
}

// Keeps thread numbers below 2^31, at least those of a single position.
opdock::Status has_small_positions(const opdock::Problem &problem, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        const DLTensor &tensor = *problem.input(i);
        if (element_count(tensor) / std::max<int64_t>(1, tensor.shape[0]) >= int64_t(1) << 29) {
            return opdock::unsupported("it needs fewer than 2^29 elements per position");
        }
        if (tensor.shape[0] * tensor.shape[1] > INT32_MAX) {
            return opdock::unsupported("it needs fewer than 2^31 positions in all batches");
        }
    }
    return {};
}

opdock::Status supports_angles(const opdock::Problem &problem) {
    const uint32_t count = tensor_count<Angles>(problem);
    const int64_t rotated = row_size(*problem.input(count));
    if (rotated % 2 != 0) {
        return opdock::invalid_argument(odd(rotated));
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (!have_dense_rows({problem.input(i), problem.input(count), problem.output(i)})) {
            return opdock::unsupported(dense_rows_wanted);
        }
    }
    return has_small_positions(problem, count);
}

opdock::Status supports_tables(const opdock::Problem &problem) {
    opdock::Status status = has_dense_rows_at_positions(problem);
    return status.ok() ? has_small_positions(problem, tensor_count<Tables>(problem)) : std::move(status);
}

// The rows of all batches of one position. They are dense, and in at most two dims.
RowSteps rows_of_position(const DLTensor &tensor) {
    DLTensor position = tensor;
    ++position.shape;
    ++position.strides;
    --position.ndim;
    return row_steps(position).value_or(RowSteps{0, 0, 1});
}

bool has_one_step(const DLTensor &tensor) {
    return rows_of_position(tensor).inner == 0;
}

Steps steps_of(const DLTensor &tensor, bool has_batches) {
    const int64_t position = tensor.shape[0] > 1 ? tensor.strides[0] : 0;
    return has_batches ? Steps{position, tensor.strides[1], tensor.strides[2]}
                       : Steps{position, 0, rows_of_position(tensor).step};
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

// True if all vectors of `n` elements of a tensor are aligned whenever the first one is.
bool has_vectors_of(int64_t n, const Steps &steps) {
    return steps.position % n == 0 && steps.batch % n == 0 && steps.row % n == 0;
}

// The rotated tensors of a call: one or two, none of them empty.
struct Which {
    uint32_t of[2], count;
};

template<class T, class Source>
Rotation<T> rotation_of(const opdock::Call &call, const Which &which, bool transposed) {
    Rotation<T> all = {};
    for (uint32_t k = 0; k < which.count; ++k) {
        const uint32_t i = which.of[k];
        all.has_batches = all.has_batches || !has_one_step(*call.input(i)) || !has_one_step(*call.output(i));
    }
    for (uint32_t k = 0; k < which.count; ++k) {
        const uint32_t i = which.of[k];
        const DLTensor &tensor = *call.output(i);
        const int64_t rows =
            tensor.ndim == 3 ? tensor.shape[1] : tensor.shape[2] * (all.has_batches ? 1 : tensor.shape[1]);
        all.of[k].input = static_cast<const T *>(input_data(call, i));
        all.of[k].output = static_cast<T *>(output_data(call, i));
        all.of[k].from = steps_of(*call.input(i), all.has_batches);
        all.of[k].to = steps_of(tensor, all.has_batches);
        all.of[k].rows = static_cast<int>(rows);
        all.positions = Divisor(static_cast<uint32_t>(tensor.shape[0]));
        all.groups = all.positions.divisor * static_cast<uint32_t>(all.has_batches ? tensor.shape[1] : 1);
    }
    all.rotated = static_cast<int>(rotated_dims<Source>(call));
    all.transposed = transposed;
    return all;
}

// Distributes the work over threads, each with up to `unroll` rows of a column.
template<class T>
void share_out(Rotation<T> &all, int dims, int N, int unroll, bool in_place) {
    uint32_t lanes = 0;
    for (Rotated<T> &tensor : all.of) {
        tensor.lanes = static_cast<int>(ceil_div(tensor.rows, unroll));
        tensor.from_stride = tensor.lanes * tensor.from.row;
        tensor.to_stride = tensor.lanes * tensor.to.row;
        lanes += static_cast<uint32_t>(tensor.lanes);
    }
    all.pairs = all.rotated / 2 / N;
    all.columns = Divisor(static_cast<uint32_t>(all.pairs + (in_place ? 0 : (dims - all.rotated) / N)));
    all.lanes = Divisor(lanes);
}

template<class T, int N, int unroll, bool interleaved, bool whole, class Source>
opdock::Status launch_rope(const opdock::Call &call, Rotation<T> &all, int dims, bool in_place, int threads) {
    share_out(all, dims, N, unroll, in_place);
    const auto source = source_of<Source>(call);
    const uint32_t of_group = all.lanes.divisor * all.columns.divisor, groups = all.groups;
    const uint32_t most = std::max(1u, (1u << 30) / of_group); // groups per launch: keeps thread numbers below 2^31
    for (all.first_group = 0; all.first_group < groups; all.first_group += all.groups) {
        all.groups = std::min(most, groups - all.first_group);
        all.threads = all.groups * of_group;
        const Grid grid = {ceil_div(all.threads, threads), threads};
        opdock::Status status = launch(call, grid, rope_kernel<T, N, unroll, interleaved, whole, Source>, all, source);
        if (!status.ok()) {
            return all.first_group == 0 ? std::move(status) : after_the_first(std::move(status));
        }
    }
    return {};
}

template<class T, bool interleaved, class Source>
opdock::Status rotate(const opdock::Call &call, const Which &which, bool transposed) {
    const ElementwiseKnobs knobs = ElementwiseKnobs::of(call);
    Rotation<T> all = rotation_of<T, Source>(call, which, transposed);
    const auto dims = static_cast<int>(row_size(*call.output(which.of[0])));
    constexpr int vector = 4;
    bool in_place = true, has_vectors = dims % vector == 0 && all.rotated / 2 % vector == 0;
    int64_t threads = 0; // with one vector of two elements, and their partners, each
    for (const Rotated<T> &tensor : all.of) {
        in_place = in_place && tensor.input == tensor.output;
        has_vectors = has_vectors && has_vectors_of(vector, tensor.from) && has_vectors_of(vector, tensor.to) &&
                      aligned(tensor.input, vector * sizeof(T)) && aligned(tensor.output, vector * sizeof(T));
        threads += static_cast<int64_t>(all.groups) * tensor.rows * (dims - all.rotated / 2) / 2;
    }
    if (!has_vectors) {
        return launch_rope<T, 1, 4, interleaved, false, Source>(call, all, dims, in_place, 128);
    }
    // All of them run at once, so the time of a single thread matters.
    if (threads <= 512 * static_cast<int64_t>(compute_units(call))) {
        return launch_rope<T, 2, 1, interleaved, false, Source>(call, all, dims, in_place, 256);
    }
    return visit_unroll(knobs.unroll, [&](auto unroll) {
        constexpr int u = decltype(unroll)::value;
        return all.rotated == dims
                   ? launch_rope<T, vector, u, interleaved, true, Source>(call, all, dims, in_place, knobs.threads)
                   : launch_rope<T, vector, u, interleaved, false, Source>(call, all, dims, in_place, knobs.threads);
    });
}

template<class Source, bool transposed>
opdock::Status rope(const opdock::Call &call) {
    const uint32_t count = tensor_count<Source>(call);
    const bool rotates = rotated_dims<Source>(call) != 0;
    Which which = {};
    for (uint32_t i = 0; i < count; ++i) {
        if (element_count(*call.output(i)) != 0 && (rotates || input_data(call, i) != output_data(call, i))) {
            which.of[which.count++] = i;
        }
    }
    if (which.count == 0) {
        return {};
    }
    return visit_floating(call.output(which.of[0])->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        return call.get_bool(0) ? rotate<T, true, Source>(call, which, transposed)
                                : rotate<T, false, Source>(call, which, transposed);
    });
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    Implementation rotation = {opdock::kernel<&rope<Angles, false>>, Knobs::rotations,
                               opdock::supports<&supports_angles>};
    rotation.any_strides = true;
    plugin.add(ops::fused_rope_fwd, any_float, rotation);
    plugin.add(ops::fused_rope_qk_fwd, any_float, rotation);
    rotation.kernel = opdock::kernel<&rope<Angles, true>>;
    plugin.add(ops::fused_rope_bwd, any_float, rotation);
    plugin.add(ops::fused_rope_qk_bwd, any_float, rotation);
    rotation.supports = opdock::supports<&supports_tables>;
    rotation.kernel = opdock::kernel<&rope<Tables, false>>;
    plugin.add(ops::rope_positions, with_positions, rotation);
    plugin.add(ops::rope_qk_positions, with_positions, rotation);
    rotation.kernel = opdock::kernel<&rope<Tables, true>>;
    plugin.add(ops::rope_positions_bwd, with_positions, rotation);
    plugin.add(ops::rope_qk_positions_bwd, with_positions, rotation);
}

} // namespace gpu
