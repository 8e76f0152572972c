// dropout_fwd and dropout_bwd, with random words as defined in opdock/ops/elementwise.h.
#include <cmath>
#include <string>

#include "elementwise.cuh"
#include "ops/ops.hpp"
#include "philox.cuh"

namespace gpu {
namespace {

// For p = 1, where nothing is kept, no threshold exists: the kernels are not used then.
struct Dropout {
    uint32_t threshold; // words from this one on keep their element
    float scale;        // of kept elements
};

__device__ __forceinline__ bool keeps(const Dropout &dropout, uint32_t word) {
    return word >= dropout.threshold;
}

// Drops some of the N elements from `begin` on. Each byte of `flags` is 1 if its element is kept.
template<int N>
__device__ __forceinline__ void drop(const Dropout &dropout, int64_t begin, uint64_t offset, uint64_t seed,
                                     float (&values)[N], uint32_t (&flags)[N / 4]) {
#pragma unroll
    for (int e = 0; e < N; e += 4) {
        const Words words = philox(static_cast<uint64_t>(begin + e) / 4, offset, seed);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const bool kept = keeps(dropout, words.word[k]);
            values[e + k] = kept ? values[e + k] * dropout.scale : 0.0f;
            flags[e / 4] |= kept ? 1u << 8 * k : 0u;
        }
    }
}

// A thread has N elements, a multiple of the four of a counter, and all of their flags.
template<class T, int N, int unroll>
__global__ void __launch_bounds__(1024)
    dropout_kernel(Dropout dropout, const int64_t *rng_state, const T *input, T *output, uint8_t *mask, int64_t n) {
    wait_for_earlier_kernels();
    const uint64_t seed = static_cast<uint64_t>(rng_state[0]), offset = static_cast<uint64_t>(rng_state[1]);
    const int64_t whole = n / N; // vectors
    const int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    constexpr int accesses = N / wide<T>;
    Vector<T, wide<T>> read[unroll][accesses];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
#pragma unroll
            for (int k = 0; k < accesses; ++k) {
                read[u][k] = reinterpret_cast<const Vector<T, wide<T>> *>(input)[i * accesses + k];
            }
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t begin = (base + static_cast<int64_t>(u) * blockDim.x) * N;
        if (begin >= n) {
            return;
        }
        const int count = begin + N <= n ? N : static_cast<int>(n - begin);
        float values[N];
        if (count == N) {
#pragma unroll
            for (int e = 0; e < N; ++e) {
                values[e] = to_f32(read[u][e / wide<T>].elements[e % wide<T>]);
            }
        } else {
#pragma unroll
            for (int e = 0; e < N; ++e) {
                values[e] = e < count ? to_f32(input[begin + e]) : 0.0f;
            }
        }
        alignas(16) uint32_t flags[N / 4] = {};
        drop(dropout, begin, offset, seed, values, flags);
        if (count == N) {
            store<N>(output + begin, values);
            *reinterpret_cast<Vector<uint32_t, N / 4> *>(mask + begin) =
                *reinterpret_cast<const Vector<uint32_t, N / 4> *>(flags);
        } else {
#pragma unroll
            for (int e = 0; e < N; ++e) {
                if (e < count) {
                    output[begin + e] = from_f32<T>(values[e]);
                    mask[begin + e] = static_cast<uint8_t>(flags[e / 4] >> 8 * (e % 4));
                }
            }
        }
    }
}

// The same element by element, for tensors that are not aligned.
template<class T>
__global__ void __launch_bounds__(1024) dropout_elements_kernel(Dropout dropout, const int64_t *rng_state,
                                                                const T *input, T *output, uint8_t *mask, int64_t n) {
    wait_for_earlier_kernels();
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        const Words words = philox(static_cast<uint64_t>(i) / 4, static_cast<uint64_t>(rng_state[1]),
                                   static_cast<uint64_t>(rng_state[0]));
        const int k = static_cast<int>(i % 4);
        const uint32_t word = k == 0 ? words.word[0] : k == 1 ? words.word[1] : k == 2 ? words.word[2] : words.word[3];
        const bool kept = keeps(dropout, word);
        output[i] = from_f32<T>(kept ? to_f32(input[i]) * dropout.scale : 0.0f);
        mask[i] = kept ? 1 : 0;
    }
}

template<class T, int N, int unroll>
__global__ void __launch_bounds__(1024)
    dropout_bwd_kernel(float scale, const T *grad, const uint8_t *mask, T *grad_input, int64_t n) {
    wait_for_earlier_kernels();
    const int64_t whole = n / N; // vectors
    const int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    Vector<T, N> read[unroll];
    Vector<uint8_t, N> flags[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
            read[u] = reinterpret_cast<const Vector<T, N> *>(grad)[i];
            flags[u] = reinterpret_cast<const Vector<uint8_t, N> *>(mask)[i];
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int64_t i = base + static_cast<int64_t>(u) * blockDim.x;
        if (i < whole) {
            float values[N];
            widen(read[u], values);
#pragma unroll
            for (int e = 0; e < N; ++e) {
                values[e] = flags[u].elements[e] != 0 ? values[e] * scale : 0.0f;
            }
            store<N>(grad_input + i * N, values);
        } else if (i == whole) {
            for (int64_t e = i * N; e < n; ++e) {
                grad_input[e] = from_f32<T>(mask[e] != 0 ? to_f32(grad[e]) * scale : 0.0f);
            }
        }
    }
}

bool is_probability(double p) {
    return p >= 0 && p <= 1;
}
std::string no_probability(double p) {
    return "p: " + std::to_string(p) + " is not a probability; expected 0 <= p <= 1";
}
opdock::Status supports(const opdock::Problem &problem) {
    const double p = problem.get_float(0);
    return is_probability(p) ? opdock::Status() : opdock::invalid_argument(no_probability(p));
}
float scale_of(double p) {
    return static_cast<float>(1 / (1 - p));
}

Grid grid_of(const ElementwiseKnobs &knobs, int64_t n, int width, int unroll) {
    return {ceil_div(ceil_div(n, width), static_cast<int64_t>(knobs.threads) * unroll), knobs.threads};
}

opdock::Status nothing_kept(const opdock::Call &call, int64_t n) {
    if (n == 0) {
        return {};
    }
    const auto stream = static_cast<Stream>(call.stream());
    const auto bytes = static_cast<size_t>(n * element_bytes(*call.output(0)));
    opdock::Status status = checked("clearing the output", GPU(MemsetAsync)(output_data(call, 0), 0, bytes, stream));
    if (!status.ok()) {
        return status;
    }
    return checked("clearing the mask", GPU(MemsetAsync)(output_data(call, 1), 0, static_cast<size_t>(n), stream));
}

opdock::Status forward(const opdock::Call &call) {
    const double p = call.get_float(0);
    const int64_t n = element_count(*call.output(0));
    const double threshold = std::floor(p * 0x1p32 + 0.5);
    if (threshold == 0x1p32) {
        return nothing_kept(call, n);
    }
    const Dropout dropout = {static_cast<uint32_t>(threshold), scale_of(p)};
    const auto knobs = ElementwiseKnobs::of(call);
    return visit_floating(call.output(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        const auto *rng_state = static_cast<const int64_t *>(input_data(call, 1));
        auto *output = static_cast<T *>(output_data(call, 0));
        auto *mask = static_cast<uint8_t *>(output_data(call, 1));
        if (!all_aligned(input, output, mask)) {
            return launch(call, grid_of(knobs, n, 1, 1), dropout_elements_kernel<T>, dropout, rng_state, input, output,
                          mask, n);
        }
        return visit_unroll(knobs.unroll, [&](auto unroll) {
            constexpr int u = decltype(unroll)::value;
            constexpr int N = 2 * wide<T>; // the most flags that one access can write
            return launch(call, grid_of(knobs, n, N, u), dropout_kernel<T, N, u>, dropout, rng_state, input, output,
                          mask, n);
        });
    });
}

opdock::Status backward(const opdock::Call &call) {
    const double p = call.get_float(0);
    const int64_t n = element_count(*call.output(0));
    const auto knobs = ElementwiseKnobs::of(call);
    return visit_floating(call.output(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto *grad = static_cast<const T *>(input_data(call, 0));
        const auto *mask = static_cast<const uint8_t *>(input_data(call, 1));
        auto *grad_input = static_cast<T *>(output_data(call, 0));
        if (!all_aligned(grad, mask, grad_input)) {
            return launch(call, grid_of(knobs, n, 1, 1), dropout_bwd_kernel<T, 1, 1>, scale_of(p), grad, mask,
                          grad_input, n);
        }
        return visit_unroll(knobs.unroll, [&](auto unroll) {
            constexpr int u = decltype(unroll)::value;
            return launch(call, grid_of(knobs, n, wide<T>, u), dropout_bwd_kernel<T, wide<T>, u>, scale_of(p), grad,
                          mask, grad_input, n);
        });
    });
}

} // namespace

void add_dropout(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::dropout_fwd, any_float,
               {opdock::kernel<&forward>, Knobs::elementwise, opdock::supports<&supports>});
    plugin.add(ops::dropout_bwd, any_float,
               {opdock::kernel<&backward>, Knobs::elementwise, opdock::supports<&supports>});
}

} // namespace gpu
