// Elementwise ops: f(inputs, outputs) for every element, 16 bytes of each tensor at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "implementation.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#include "tensors.hpp"

namespace gpu {

template<class T, int inputs, int outputs>
struct Arrays {
    const T *in[inputs];
    T *out[outputs];
};

// Calls f for each of N elements.
template<class T, int N, int inputs, int outputs, class F>
__device__ __forceinline__ void map_vectors(const F &f, const Vector<T, N> (&from)[inputs], T *const (&to)[outputs]) {
    float results[outputs][N];
#pragma unroll
    for (int e = 0; e < N; ++e) {
        float in[inputs], out[outputs];
#pragma unroll
        for (int k = 0; k < inputs; ++k) {
            in[k] = to_f32(from[k].elements[e]);
        }
        f(in, out);
#pragma unroll
        for (int k = 0; k < outputs; ++k) {
            results[k][e] = out[k];
        }
    }
#pragma unroll
    for (int k = 0; k < outputs; ++k) {
        store<N>(to[k], results[k]);
    }
}

// A block has `unroll` * blockDim.x vectors, each thread every blockDim.x-th of them. A thread reads all of its vectors
// before it writes the first, so outputs may be inputs.
template<class T, int N, int unroll, int inputs, int outputs, class F>
__global__ void __launch_bounds__(1024) map_kernel(F f, Arrays<T, inputs, outputs> arrays, int64_t n) {
    wait_for_earlier_kernels();
    const int64_t vectors = n / N;
    const int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    Vector<T, N> read[unroll][inputs];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < vectors) {
#pragma unroll
            for (int k = 0; k < inputs; ++k) {
                read[u][k] = reinterpret_cast<const Vector<T, N> *>(arrays.in[k])[i];
            }
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < vectors) {
            T *to[outputs];
#pragma unroll
            for (int k = 0; k < outputs; ++k) {
                to[k] = arrays.out[k] + i * N;
            }
            map_vectors<T, N>(f, read[u], to);
        }
    }
    // The remaining elements of an incomplete last vector.
    if (blockIdx.x == gridDim.x - 1) {
        for (int64_t i = vectors * N + threadIdx.x; i < n; i += blockDim.x) {
            float in[inputs], out[outputs];
            for (int k = 0; k < inputs; ++k) {
                in[k] = to_f32(arrays.in[k][i]);
            }
            f(in, out);
            for (int k = 0; k < outputs; ++k) {
                arrays.out[k][i] = from_f32<T>(out[k]);
            }
        }
    }
}

// Rows with any strides. `lanes` threads of a block, a power of two, share a row, or several blocks do.
template<int inputs, int outputs>
struct MappedRows {
    RowSteps in[inputs], out[outputs];
    int64_t rows, vectors; // vectors per row
    int lanes;
    uint32_t blocks_of_row;
};

// One vector per thread; with N = 1 a vector is an element.
template<class T, int N, int inputs, int outputs, class F>
__global__ void __launch_bounds__(1024)
    map_rows_kernel(F f, Arrays<T, inputs, outputs> arrays, MappedRows<inputs, outputs> shape) {
    wait_for_earlier_kernels();
    const uint32_t tile = blockIdx.x / shape.blocks_of_row;
    const int lane = static_cast<int>(threadIdx.x) & (shape.lanes - 1);
    const int64_t row = static_cast<int64_t>(tile) * (static_cast<int>(blockDim.x) / shape.lanes) +
                        static_cast<int>(threadIdx.x) / shape.lanes;
    const int64_t i = static_cast<int64_t>(blockIdx.x - tile * shape.blocks_of_row) * shape.lanes + lane;
    if (row >= shape.rows || i >= shape.vectors) {
        return;
    }
    Vector<T, N> from[inputs];
#pragma unroll
    for (int k = 0; k < inputs; ++k) {
        from[k] = *reinterpret_cast<const Vector<T, N> *>(arrays.in[k] + shape.in[k].row(row) + i * N);
    }
    T *to[outputs];
#pragma unroll
    for (int k = 0; k < outputs; ++k) {
        to[k] = arrays.out[k] + shape.out[k].row(row) + i * N;
    }
    map_vectors<T, N>(f, from, to);
}

// Calls visit(Number<unroll>) for the requested unroll.
template<class Visitor>
opdock::Status visit_unroll(int64_t unroll, Visitor &&visit) {
    switch (unroll) {
    case 1:
        return visit(Number<1>{});
    case 2:
        return visit(Number<2>{});
    default:
        return visit(Number<4>{});
    }
}

// The rows of a call's first tensors, all of one shape: as they are, or all elements as one row if dense.
template<int inputs, int outputs>
MappedRows<inputs, outputs> mapped_rows(const opdock::Call &call, bool are_dense) {
    const DLTensor &shape = *call.output(0);
    MappedRows<inputs, outputs> found = {};
    found.rows = are_dense ? 1 : row_count(shape);
    found.vectors = are_dense ? element_count(shape) : row_size(shape);
    for (int k = 0; !are_dense && k < inputs; ++k) {
        found.in[k] = *row_steps(*call.input(static_cast<uint32_t>(k)));
    }
    for (int k = 0; !are_dense && k < outputs; ++k) {
        found.out[k] = *row_steps(*call.output(static_cast<uint32_t>(k)));
    }
    return found;
}

template<class T, int inputs, int outputs, class F>
opdock::Status map_rows(const opdock::Call &call, const F &f, const Arrays<T, inputs, outputs> &arrays, bool are_dense,
                        bool are_aligned, int64_t threads) {
    MappedRows<inputs, outputs> shape = mapped_rows<inputs, outputs>(call, are_dense);
    are_aligned = are_aligned && shape.vectors % wide<T> == 0;
    for (const RowSteps &steps : shape.in) {
        are_aligned = are_aligned && steps.fit(wide<T>);
    }
    for (const RowSteps &steps : shape.out) {
        are_aligned = are_aligned && steps.fit(wide<T>);
    }
    shape.vectors = are_aligned ? shape.vectors / wide<T> : shape.vectors;
    const int64_t block = next_power_of_two(std::clamp<int64_t>(threads, 32, 1024));
    shape.lanes = static_cast<int>(std::min(block, next_power_of_two(std::max<int64_t>(shape.vectors, 1))));
    shape.blocks_of_row = static_cast<uint32_t>(ceil_div(shape.vectors, shape.lanes));
    const Grid grid = {shape.blocks_of_row * ceil_div(shape.rows, block / shape.lanes), static_cast<int>(block)};
    return are_aligned ? launch(call, grid, map_rows_kernel<T, wide<T>, inputs, outputs, F>, f, arrays, shape)
                       : launch(call, grid, map_rows_kernel<T, 1, inputs, outputs, F>, f, arrays, shape);
}

// Applies f to the first `inputs` inputs and the first `outputs` outputs of a call, all of one
// shape and dtype. Rows may have any strides.
template<int inputs, int outputs, class F>
opdock::Status map(const opdock::Call &call, const F &f) {
    const DLTensor &shape = *call.output(0);
    const int64_t n = element_count(shape);
    const auto knobs = ElementwiseKnobs::of(call);
    return visit_floating(shape.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        Arrays<T, inputs, outputs> arrays;
        bool are_aligned = true, are_dense = true;
        for (int k = 0; k < inputs; ++k) {
            arrays.in[k] = static_cast<const T *>(input_data(call, static_cast<uint32_t>(k)));
            are_aligned = are_aligned && aligned(arrays.in[k]);
            are_dense = are_dense && is_dense(*call.input(static_cast<uint32_t>(k)));
        }
        for (int k = 0; k < outputs; ++k) {
            arrays.out[k] = static_cast<T *>(output_data(call, static_cast<uint32_t>(k)));
            are_aligned = are_aligned && aligned(arrays.out[k]);
            are_dense = are_dense && is_dense(*call.output(static_cast<uint32_t>(k)));
        }
        if (!are_aligned || !are_dense) {
            return map_rows(call, f, arrays, are_dense, are_aligned, knobs.threads);
        }
        const auto start = [&](auto width, auto unroll) {
            constexpr int N = decltype(width)::value, u = decltype(unroll)::value;
            const int64_t blocks = ceil_div(ceil_div(n, N), static_cast<int64_t>(knobs.threads) * u);
            return launch(call, {blocks, knobs.threads}, map_kernel<T, N, u, inputs, outputs, F>, f, arrays, n);
        };
        // With few elements, a thread has two of them: latency matters then, not bandwidth.
        if (n <= 256 * static_cast<int64_t>(compute_units(call))) {
            return start(Number<2>{}, Number<1>{});
        }
        return visit_unroll(knobs.unroll, [&](auto unroll) { return start(Number<wide<T>>{}, unroll); });
    });
}

} // namespace gpu
