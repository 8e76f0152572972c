// quantize and dequantize.
#include "elementwise.cuh"
#include "float8.cuh"
#include "ops/ops.hpp"
#include "reduce.cuh"

namespace gpu {
namespace {

// Atomic maximum of magnitudes, with NaN the largest. It compares them as integers: the bits of
// nonnegative f32 have the same order, and the result does not depend on the order of the blocks.
__device__ __forceinline__ void raise_amax(float *amax, float largest) {
    const float magnitude = largest != largest || *amax != *amax ? __uint_as_float(0x7fc00000u) : largest;
    atomicMax(reinterpret_cast<int *>(amax), __float_as_int(magnitude));
}

// A block's largest |input| goes to `amax` unless `amax` is null.
template<class T, class F, int N, int unroll>
__global__ void __launch_bounds__(1024)
    quantize_kernel(const T *input, const float *scale, F *output, float *amax, int64_t n) {
    wait_for_earlier_kernels();
    __shared__ float shared[most_warps];
    const float by = *scale;
    const int64_t whole = n / N; // vectors
    const int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    Vector<T, N> read[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
            read[u] = reinterpret_cast<const Vector<T, N> *>(input)[i];
        }
    }
    float largest = 0;
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
            float values[N];
            widen(read[u], values);
#pragma unroll
            for (int e = 0; e < N; ++e) {
                largest = Largest::of(largest, fabsf(values[e]));
                values[e] *= by;
            }
            reinterpret_cast<Vector<F, N> *>(output)[i] = narrow8<F>(values);
        } else if (i == whole) {
            for (int64_t e = i * N; e < n; ++e) {
                const float value = to_f32(input[e]);
                largest = Largest::of(largest, fabsf(value));
                output[e] = F::of(value * by);
            }
        }
    }
    if (amax != nullptr) {
        largest = reduce<Largest>(largest, static_cast<int>(blockDim.x), shared);
        if (threadIdx.x == 0) {
            raise_amax(amax, largest);
        }
    }
}

template<class F, class T, int N, int unroll>
__global__ void __launch_bounds__(1024)
    dequantize_kernel(const F *input, const float *scale_inv, T *output, int64_t n) {
    wait_for_earlier_kernels();
    const float by = *scale_inv;
    const int64_t whole = n / N; // vectors
    const int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    Vector<F, N> read[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
            read[u] = reinterpret_cast<const Vector<F, N> *>(input)[i];
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
            float values[N];
#pragma unroll
            for (int e = 0; e < N; ++e) {
                values[e] = read[u].elements[e].value() * by;
            }
            store<N>(output + i * N, values);
        } else if (i == whole) {
            for (int64_t e = i * N; e < n; ++e) {
                output[e] = from_f32<T>(input[e].value() * by);
            }
        }
    }
}

// A vector is 16 bytes of the wider type.
Grid grid_of(int64_t threads, int64_t n, int width, int unroll) {
    return {ceil_div(ceil_div(n, width), threads * unroll), static_cast<int>(threads)};
}

opdock::Status quantize(const opdock::Call &call) {
    const int64_t n = element_count(*call.output(0));
    const auto knobs = ElementwiseKnobs::of(call);
    const auto *scale = static_cast<const float *>(input_data(call, 1));
    auto *amax = static_cast<float *>(input_data(call, 2));
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        return visit_float8(call.output(0)->dtype, [&](auto f) {
            return visit_unroll(knobs.unroll, [&](auto unroll) {
                using T = typename decltype(t)::type;
                using F = typename decltype(f)::type;
                constexpr int u = decltype(unroll)::value;
                const auto *input = static_cast<const T *>(input_data(call, 0));
                auto *output = static_cast<F *>(output_data(call, 0));
                // Reductions are over powers of two.
                const int64_t threads = std::max<int64_t>(64, next_power_of_two(knobs.threads));
                return all_aligned(input, output)
                           ? launch(call, grid_of(threads, n, wide<T>, u), quantize_kernel<T, F, wide<T>, u>, input,
                                    scale, output, amax, n)
                           : launch(call, grid_of(threads, n, 1, u), quantize_kernel<T, F, 1, u>, input, scale, output,
                                    amax, n);
            });
        });
    });
}

opdock::Status dequantize(const opdock::Call &call) {
    const int64_t n = element_count(*call.output(0));
    const auto knobs = ElementwiseKnobs::of(call);
    const auto *scale_inv = static_cast<const float *>(input_data(call, 1));
    return visit_float8(call.input(0)->dtype, [&](auto f) {
        return visit_floating(call.output(0)->dtype, [&](auto t) {
            return visit_unroll(knobs.unroll, [&](auto unroll) {
                using T = typename decltype(t)::type;
                using F = typename decltype(f)::type;
                constexpr int u = decltype(unroll)::value;
                const auto *input = static_cast<const F *>(input_data(call, 0));
                auto *output = static_cast<T *>(output_data(call, 0));
                return all_aligned(input, output)
                           ? launch(call, grid_of(knobs.threads, n, wide<T>, u), dequantize_kernel<F, T, wide<T>, u>,
                                    input, scale_inv, output, n)
                           : launch(call, grid_of(knobs.threads, n, 1, u), dequantize_kernel<F, T, 1, u>, input,
                                    scale_inv, output, n);
            });
        });
    });
}

} // namespace

void add_quantization(Plugin &plugin) {
    plugin.add(opdock::ops::quantize, to_fp8, {opdock::kernel<&quantize>, Knobs::elementwise});
    plugin.add(opdock::ops::dequantize, from_fp8, {opdock::kernel<&dequantize>, Knobs::elementwise});
}

} // namespace gpu
