// Elementwise ops: f(inputs, outputs) for every element, 16 bytes of each tensor at a time.
#pragma once

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

// A block has `unroll` * blockDim.x vectors, each thread every blockDim.x-th of them; all are read before the first is
// written, so outputs may be inputs. With N = 1 a vector is an element.
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
            float results[outputs][N];
#pragma unroll
            for (int e = 0; e < N; ++e) {
                float in[inputs], out[outputs];
#pragma unroll
                for (int k = 0; k < inputs; ++k) {
                    in[k] = to_f32(read[u][k].elements[e]);
                }
                f(in, out);
#pragma unroll
                for (int k = 0; k < outputs; ++k) {
                    results[k][e] = out[k];
                }
            }
#pragma unroll
            for (int k = 0; k < outputs; ++k) {
                store<N>(arrays.out[k] + i * N, results[k]);
            }
        }
    }
    // What is left of a last vector.
    if (N > 1 && blockIdx.x == gridDim.x - 1) {
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

// Calls visit(Number<unroll>) for the unroll that is asked for.
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

// f over the first `inputs` inputs and the first `outputs` outputs of a call, all of one shape and dtype.
template<int inputs, int outputs, class F>
opdock::Status map(const opdock::Call &call, const F &f) {
    const DLTensor &shape = *call.output(0);
    const int64_t n = element_count(shape);
    const auto knobs = ElementwiseKnobs::of(call);
    return visit_floating(shape.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        Arrays<T, inputs, outputs> arrays;
        bool are_aligned = true;
        for (int k = 0; k < inputs; ++k) {
            arrays.in[k] = static_cast<const T *>(input_data(call, static_cast<uint32_t>(k)));
            are_aligned = are_aligned && aligned(arrays.in[k]);
        }
        for (int k = 0; k < outputs; ++k) {
            arrays.out[k] = static_cast<T *>(output_data(call, static_cast<uint32_t>(k)));
            are_aligned = are_aligned && aligned(arrays.out[k]);
        }
        const auto start = [&](auto width, auto unroll) {
            constexpr int N = decltype(width)::value, u = decltype(unroll)::value;
            const int64_t blocks = ceil_div(ceil_div(n, N), static_cast<int64_t>(knobs.threads) * u);
            return launch(call, {blocks, knobs.threads}, map_kernel<T, N, u, inputs, outputs, F>, f, arrays, n);
        };
        // A thread has two elements where there are few: latency counts then, not bandwidth.
        if (are_aligned && n <= 256 * static_cast<int64_t>(compute_units(call))) {
            return start(Number<2>{}, Number<1>{});
        }
        return visit_unroll(knobs.unroll, [&](auto unroll) {
            return are_aligned ? start(Number<wide<T>>{}, unroll) : start(Number<1>{}, unroll);
        });
    });
}

} // namespace gpu
