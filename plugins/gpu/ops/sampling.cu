// sample_top_k_top_p.
#include "sampling.cuh"

#include "ops/ops.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

// Absent filters keep everything.
struct Filters {
    const int32_t *k;
    const float *p;
};

template<class T>
__global__ void __launch_bounds__(sampling_threads)
    sample_kernel(int64_t row_step, int n, int blocks_of_row, const T *logits, const int64_t *rng_state,
                  Filters filters, int64_t *indices) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ SamplingShared shared;
    const int64_t row = blockIdx.x / static_cast<unsigned>(blocks_of_row);
    Sampler<T> sampler(shared, SampledRow<T>(logits + row * row_step, n), blocks_of_row);
    const Words words =
        philox(static_cast<uint64_t>(row), static_cast<uint64_t>(rng_state[1]), static_cast<uint64_t>(rng_state[0]));
    const int found =
        sampler.draw(filters.k == nullptr ? 0 : filters.k[row], filters.p == nullptr ? 1.0f : filters.p[row],
                     static_cast<uint64_t>(words.word[1]) << 32 | words.word[0]);
    if (found > -2) {
        indices[row] = found;
    }
    if (blocks_of_row > 1) {
        wait_for_cluster(); // no block still reads another one's memory
    }
}

opdock::Status supports(const opdock::Problem &problem) {
    for (uint32_t i = 0; i < problem.c().n_tensors; ++i) {
        const DLTensor *tensor = problem.c().tensors[i];
        if (tensor != nullptr && row_size(*tensor) > 1 && tensor->strides[tensor->ndim - 1] != 1) {
            return opdock::unsupported("it needs rows with contiguous elements");
        }
    }
    return {};
}

// As many as possible with all rows in flight at once.
int blocks_for_row(const opdock::Problem &problem, int64_t rows, int64_t n) {
    int blocks = 1;
    while (has_clusters(problem) && blocks < 8 && rows * blocks * 2 <= compute_units(problem) &&
           n >= int64_t(4096) * blocks) {
        blocks *= 2;
    }
    return blocks;
}

opdock::Status run(const opdock::Call &call) {
    const DLTensor &logits = *call.input(0);
    const int64_t rows = logits.shape[0];
    const auto n = static_cast<int>(logits.shape[1]);
    const int blocks = blocks_for_row(call, rows, n);
    const Filters filters = {static_cast<const int32_t *>(input_data(call, 2)),
                             static_cast<const float *>(input_data(call, 3))};
    return visit_floating(logits.dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        Grid grid = {rows * blocks, sampling_threads};
        grid.cluster = blocks;
        return launch(call, grid, sample_kernel<T>, logits.strides[0], n, blocks,
                      static_cast<const T *>(input_data(call, 0)), static_cast<const int64_t *>(input_data(call, 1)),
                      filters, static_cast<int64_t *>(output_data(call, 0)));
    });
}

} // namespace

void add_sampling(Plugin &plugin) {
    Implementation sampling = {opdock::kernel<&run>, Knobs::none, opdock::supports<&supports>};
    sampling.any_strides = true;
    plugin.add(opdock::ops::sample_top_k_top_p, any_float, sampling);
}

} // namespace gpu
