// embedding and embedding_bwd. An index outside the weight, which the host cannot see,
// gives a row of zeros forward, and does not contribute to the gradient.
#include "ops/ops.hpp"
#include "rows.cuh"

namespace gpu {
namespace {

template<class Bits>
__global__ void __launch_bounds__(1024) rows_kernel(int64_t count, int64_t rows, int64_t n, int threads,
                                                    const Bits *weight, const int64_t *indices, Bits *output) {
    const Place place = place_of(threads, count);
    wait_for_earlier_kernels();
    if (!place.exists) {
        return;
    }
    const int64_t index = indices[place.row];
    const bool is_row = index >= 0 && index < rows;
    const Bits *from = weight + (is_row ? index : 0) * n;
    Bits *to = output + place.row * n;
    constexpr int under_way = 4; // read before the first one is written
    for (int64_t i = place.thread; i < n; i += under_way * static_cast<int64_t>(threads)) {
        Bits held[under_way] = {};
#pragma unroll
        for (int v = 0; v < under_way; ++v) {
            const int64_t at = i + v * static_cast<int64_t>(threads);
            if (is_row && at < n) {
                held[v] = from[at];
            }
        }
        let_the_next_start(~0u);
#pragma unroll
        for (int v = 0; v < under_way; ++v) {
            const int64_t at = i + v * static_cast<int64_t>(threads);
            if (at < n) {
                to[at] = held[v];
            }
        }
    }
}

template<class Bits>
opdock::Status copy_rows(const opdock::Call &call) {
    const DLTensor &weight = *call.input(0);
    const int64_t count = element_count(*call.input(1));
    const int64_t n = weight.shape[1] * element_bytes(weight) / static_cast<int64_t>(sizeof(Bits));
    if (n == 0) {
        return {};
    }
    const RowPlan plan = plan_rows(n, 1, default_row_threads(count, n, compute_units(call)), 128, 0);
    return launch(call, plan.grid(count, 0), rows_kernel<Bits>, count, weight.shape[0], n, plan.threads,
                  static_cast<const Bits *>(input_data(call, 0)), static_cast<const int64_t *>(input_data(call, 1)),
                  static_cast<Bits *>(output_data(call, 0)));
}

opdock::Status forward(const opdock::Call &call) {
    const DLTensor &weight = *call.input(0);
    const bool vectors =
        weight.shape[1] * element_bytes(weight) % 16 == 0 && all_aligned(input_data(call, 0), output_data(call, 0));
    return vectors                      ? copy_rows<uint4>(call)
           : element_bytes(weight) == 2 ? copy_rows<uint16_t>(call)
                                        : copy_rows<uint32_t>(call);
}

// Among the rows of grad that use a given row of the weight: the first one, and the one
// after the last. Initially `first` is the largest number.
struct Range {
    uint32_t first, end;
};

__global__ void __launch_bounds__(256) clear_kernel(int64_t rows, Range *ranges) {
    wait_for_earlier_kernels();
    const int64_t v = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (v < rows) {
        ranges[v] = {~0u, 0};
    }
}

// Minima and maxima of integers, which do not depend on the order.
__global__ void __launch_bounds__(256)
    ranges_kernel(int64_t count, int64_t rows, const int64_t *indices, Range *ranges) {
    wait_for_earlier_kernels();
    const int64_t r = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (r < count) {
        const int64_t index = indices[r];
        if (index >= 0 && index < rows) {
            atomicMin(&ranges[index].first, static_cast<uint32_t>(r));
            atomicMax(&ranges[index].end, static_cast<uint32_t>(r) + 1);
        }
    }
}

constexpr int gradient_block = 256;

__device__ __forceinline__ uint64_t ballot(bool holds) {
#ifdef __HIP__
    return __ballot(holds ? 1 : 0);
#else
    return __ballot_sync(0xffffffffu, holds ? 1 : 0);
#endif
}

// Each thread tests the row base + thread; `list` gets the rows for which `holds` is true,
// in order. Returns their number. All threads of the block take part.
__device__ __forceinline__ int list_matches(bool holds, int64_t base, int64_t *list, uint64_t *shared) {
    const int warp = thread_in_block() / warp_size(), lane = thread_in_block() % warp_size();
    const uint64_t mine = ballot(holds);
    if (lane == 0) {
        shared[warp] = mine;
    }
    wait_for_block(); // also guards the last use of `list`
    int before = 0, count = 0;
    for (int w = 0; w < gradient_block / warp_size(); ++w) {
        const int of_warp = __popcll(shared[w]);
        before += w < warp ? of_warp : 0;
        count += of_warp;
    }
    if (holds) {
        list[before + __popcll(mine & ((uint64_t(1) << lane) - 1))] = base + thread_in_block();
    }
    wait_for_block();
    return count;
}

// Adds the sum over the listed rows, in N columns.
template<class T, int N>
__device__ __forceinline__ void add_rows(const T *grad, int64_t n, const int64_t *list, int count, float (&total)[N]) {
    float sum[N] = {};
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
        float values[N];
        load<N>(grad + list[i] * n, values);
#pragma unroll
        for (int c = 0; c < N; ++c) {
            sum[c] += values[c];
        }
    }
#pragma unroll
    for (int c = 0; c < N; ++c) {
        total[c] += sum[c];
    }
}

// Indices that each thread reads at a time, so that the reads overlap.
constexpr int64_t looked_through = 8;

// A block has gradient_block * N columns of one row of the weight. It scans the indices from the
// first to the last one that names this row. Order of the sum: matching rows of grad are summed
// in order within each run of 256 rows, and then those sums are added in order, all in f32.
template<class T, int N>
__global__ void __launch_bounds__(gradient_block)
    gradient_kernel(int64_t n, int64_t blocks_of_row, const T *grad, const int64_t *indices, const Range *ranges,
                    T *grad_weight) {
    wait_for_earlier_kernels();
    __shared__ int64_t list[gradient_block];
    __shared__ uint64_t shared[most_warps];
    const int64_t row = static_cast<int64_t>(blockIdx.x) / blocks_of_row;
    const int64_t column = (static_cast<int64_t>(blockIdx.x) % blocks_of_row * gradient_block + threadIdx.x) * N;
    const Range range = ranges[row];
    float total[N] = {};
    for (int64_t base = range.first; base < range.end; base += looked_through * gradient_block) {
        bool holds[looked_through], holds_any = false;
#pragma unroll
        for (int64_t i = 0; i < looked_through; ++i) {
            const int64_t r = base + i * gradient_block + threadIdx.x;
            holds[i] = r < range.end && indices[r] == row;
            holds_any = holds_any || holds[i];
        }
        if (!any_of_block(holds_any)) {
            continue;
        }
#pragma unroll
        for (int64_t i = 0; i < looked_through; ++i) {
            const int count = list_matches(holds[i], base + i * gradient_block, list, shared);
            if (count != 0 && column < n) {
                add_rows<T, N>(grad + column, n, list, count, total);
            }
        }
    }
    if (column < n) {
        store<N>(grad_weight + row * n + column, total);
    }
}

uint64_t workspace_size(const opdock::Problem &problem) {
    return static_cast<uint64_t>(problem.input(1)->shape[0]) * sizeof(Range);
}

// Rows are counted in 32 bits.
opdock::Status supports(const opdock::Problem &problem) {
    return element_count(*problem.input(2)) < int64_t(~0u)
               ? opdock::Status()
               : opdock::unsupported("indices: " + std::to_string(element_count(*problem.input(2))) +
                                     "; this implementation takes fewer than 2^32 - 1");
}

opdock::Status backward(const opdock::Call &call) {
    const int64_t count = element_count(*call.input(2));
    const int64_t rows = call.input(1)->shape[0], n = call.input(1)->shape[1];
    if (n == 0) {
        return {};
    }
    const auto *indices = static_cast<const int64_t *>(input_data(call, 2));
    auto *ranges = static_cast<Range *>(call.workspace());
    opdock::Status cleared = launch(call, {ceil_div(rows, 256), 256}, clear_kernel, rows, ranges);
    if (!cleared.ok()) {
        return cleared;
    }
    opdock::Status found = launch(call, {ceil_div(count, 256), 256}, ranges_kernel, count, rows, indices, ranges);
    if (!found.ok()) {
        return found;
    }
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        auto *grad_weight = static_cast<T *>(output_data(call, 0));
        const auto start = [&](auto width) {
            constexpr int N = decltype(width)::value;
            const int64_t blocks_of_row = ceil_div(n, gradient_block * N);
            return launch(call, {rows * blocks_of_row, gradient_block}, gradient_kernel<T, N>, n, blocks_of_row, grad,
                          indices, ranges, grad_weight);
        };
        return width_of<T>(n, all_aligned(grad, grad_weight)) == 1 ? start(Number<1>{}) : start(Number<wide<T>>{});
    });
}

} // namespace

void add_embedding(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::embedding, any_float, {opdock::kernel<&forward>, Knobs::none});
    plugin.add(
        ops::embedding_bwd, any_float,
        {opdock::kernel<&backward>, Knobs::none, opdock::supports<&supports>, opdock::workspace_size<&workspace_size>});
}

} // namespace gpu
