// Gated activations: act(first) * second, where the two are the halves of each row, or two tensors.
#include "activation.cuh"
#include "elementwise.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

template<class Activation>
struct Gate {
    __device__ __forceinline__ float forward(float first, float second) const {
        return Activation::value(first) * second;
    }
    // The gradients of both halves.
    __device__ __forceinline__ void backward(float grad, float first, float second, float &of_first,
                                             float &of_second) const {
        const ValueAndSlope both = Activation::both(first);
        of_first = grad * second * both.slope;
        of_second = grad * both.value;
    }
};

struct ClampedGate {
    float limit, alpha;

    // Written so that a NaN is kept, which min and max with the limit first would lose.
    __device__ __forceinline__ float below(float v) const { return v > limit ? limit : v; }
    __device__ __forceinline__ float within(float v) const { return v < -limit ? -limit : below(v); }

    __device__ __forceinline__ float forward(float first, float second) const {
        const float a = below(first);
        return a * sigmoid(alpha * a) * (within(second) + 1.0f);
    }
    __device__ __forceinline__ void backward(float grad, float first, float second, float &of_first,
                                             float &of_second) const {
        const float a = below(first), b = within(second);
        const float s = sigmoid(alpha * a);
        // Uses the comparisons of the definition, which are false for a NaN.
        of_first = first <= limit ? grad * (b + 1.0f) * s * (1.0f + alpha * a * (1.0f - s)) : 0.0f;
        of_second = -limit <= second && second <= limit ? grad * a * s : 0.0f;
    }
};

// --- halves of rows --------------------------------------------------------------------------------------------------

// Vector i of the output, counted over all rows; a row has `per_row` vectors. Index is 32 bits if that is enough, since
// the division by per_row is a large part of the arithmetic.
template<class Index>
struct Halves {
    Index first, second; // vectors of the input
};
template<class Index>
__device__ __forceinline__ Halves<Index> halves_of(Index i, Index per_row) {
    const Index row = i / per_row;
    const Index first = i + row * per_row;
    return {first, first + per_row};
}

template<class T, int N, int unroll, class Index, class F>
__global__ void __launch_bounds__(1024) glu_kernel(F f, const T *input, T *output, Index vectors, Index per_row) {
    wait_for_earlier_kernels();
    using V = Vector<T, N>;
    const Index base = static_cast<Index>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    V first[unroll], second[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const Index i = base + u * blockDim.x;
        if (i < vectors) {
            const Halves<Index> at = halves_of(i, per_row);
            first[u] = reinterpret_cast<const V *>(input)[at.first];
            second[u] = reinterpret_cast<const V *>(input)[at.second];
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const Index i = base + u * blockDim.x;
        if (i < vectors) {
            float result[N];
#pragma unroll
            for (int e = 0; e < N; ++e) {
                result[e] = f.forward(to_f32(first[u].elements[e]), to_f32(second[u].elements[e]));
            }
            reinterpret_cast<V *>(output)[i] = narrow<T, N>(result);
        }
    }
}

template<class T, int N, int unroll, class Index, class F>
__global__ void __launch_bounds__(1024)
    dglu_kernel(F f, const T *grad, const T *input, T *grad_input, Index vectors, Index per_row) {
    wait_for_earlier_kernels();
    using V = Vector<T, N>;
    const Index base = static_cast<Index>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    V upstream[unroll], first[unroll], second[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const Index i = base + u * blockDim.x;
        if (i < vectors) {
            const Halves<Index> at = halves_of(i, per_row);
            upstream[u] = reinterpret_cast<const V *>(grad)[i];
            first[u] = reinterpret_cast<const V *>(input)[at.first];
            second[u] = reinterpret_cast<const V *>(input)[at.second];
        }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const Index i = base + u * blockDim.x;
        if (i < vectors) {
            float of_first[N], of_second[N];
#pragma unroll
            for (int e = 0; e < N; ++e) {
                f.backward(to_f32(upstream[u].elements[e]), to_f32(first[u].elements[e]), to_f32(second[u].elements[e]),
                           of_first[e], of_second[e]);
            }
            const Halves<Index> at = halves_of(i, per_row);
            reinterpret_cast<V *>(grad_input)[at.first] = narrow<T, N>(of_first);
            reinterpret_cast<V *>(grad_input)[at.second] = narrow<T, N>(of_second);
        }
    }
}

// Calls start(T, N, unroll, vectors, vectors per row, grid), with the counts as Index, for rows of n outputs.
template<class... Pointers, class Start>
opdock::Status share_out(const opdock::Call &call, const DLTensor &halved, Start start, Pointers... pointers) {
    const int64_t n = row_size(halved);
    const int64_t elements = element_count(halved);
    const auto knobs = ElementwiseKnobs::of(call);
    return visit_floating(halved.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return visit_unroll(knobs.unroll, [&](auto unroll) {
            constexpr int u = decltype(unroll)::value;
            const auto with = [&](auto width) {
                constexpr int N = decltype(width)::value;
                const Grid grid = {ceil_div(elements / N, static_cast<int64_t>(knobs.threads) * u), knobs.threads};
                // Index must be able to count the input's vectors plus those of one more block.
                return 2 * (elements / N) < (int64_t(1) << 31)
                           ? start(tag, width, unroll, static_cast<uint32_t>(elements / N),
                                   static_cast<uint32_t>(n / N), grid)
                           : start(tag, width, unroll, elements / N, n / N, grid);
            };
            return n % wide<T> == 0 && all_aligned(pointers...) ? with(Number<wide<T>>{}) : with(Number<1>{});
        });
    });
}

template<class F>
opdock::Status glu(const opdock::Call &call, const F &f) {
    void *input = input_data(call, 0), *output = output_data(call, 0);
    return share_out(
        call, *call.output(0),
        [&](auto tag, auto width, auto unroll, auto vectors, auto per_row, const Grid &grid) {
            using T = typename decltype(tag)::type;
            return launch(call, grid,
                          glu_kernel<T, decltype(width)::value, decltype(unroll)::value, decltype(vectors), F>, f,
                          static_cast<const T *>(input), static_cast<T *>(output), vectors, per_row);
        },
        input, output);
}

template<class F>
opdock::Status dglu(const opdock::Call &call, const F &f) {
    void *grad = input_data(call, 0), *input = input_data(call, 1), *grad_input = output_data(call, 0);
    return share_out(
        call, *call.input(0),
        [&](auto tag, auto width, auto unroll, auto vectors, auto per_row, const Grid &grid) {
            using T = typename decltype(tag)::type;
            return launch(call, grid,
                          dglu_kernel<T, decltype(width)::value, decltype(unroll)::value, decltype(vectors), F>, f,
                          static_cast<const T *>(grad), static_cast<const T *>(input), static_cast<T *>(grad_input),
                          vectors, per_row);
        },
        grad, input, grad_input);
}

template<class Activation>
opdock::Status forward(const opdock::Call &call) {
    return glu(call, Gate<Activation>{});
}
template<class Activation>
opdock::Status backward(const opdock::Call &call) {
    return dglu(call, Gate<Activation>{});
}

ClampedGate clamped_gate(const opdock::Call &call) {
    return {static_cast<float>(call.get_float(0)), static_cast<float>(call.get_float(1))};
}
opdock::Status clamped_forward(const opdock::Call &call) {
    return glu(call, clamped_gate(call));
}
opdock::Status clamped_backward(const opdock::Call &call) {
    return dglu(call, clamped_gate(call));
}

// --- two tensors -----------------------------------------------------------------------------------------------------

template<class Activation>
struct Forward {
    __device__ __forceinline__ void operator()(const float (&in)[2], float (&out)[1]) const {
        out[0] = Gate<Activation>().forward(in[0], in[1]);
    }
};

template<class Activation>
struct Backward {
    __device__ __forceinline__ void operator()(const float (&in)[3], float (&out)[2]) const {
        Gate<Activation>().backward(in[0], in[1], in[2], out[0], out[1]);
    }
};

template<class Activation>
opdock::Status and_mul(const opdock::Call &call) {
    return map<2, 1>(call, Forward<Activation>{});
}
template<class Activation>
opdock::Status and_mul_bwd(const opdock::Call &call) {
    return map<3, 2>(call, Backward<Activation>{});
}

// add_halves(), add_tensors(): add the ops of an activation; not every activation has both kinds.
template<class Activation>
void add_halves(Plugin &plugin, const opdock::OpDeclaration &value, const opdock::OpDeclaration &derivative) {
    plugin.add(value, any_float, {opdock::kernel<&forward<Activation>>, Knobs::elementwise});
    plugin.add(derivative, any_float, {opdock::kernel<&backward<Activation>>, Knobs::elementwise});
}
template<class Activation>
void add_tensors(Plugin &plugin, const opdock::OpDeclaration &value, const opdock::OpDeclaration &derivative) {
    plugin.add(value, any_float, by_rows<0b111>(opdock::kernel<&and_mul<Activation>>, Knobs::elementwise));
    plugin.add(derivative, any_float, by_rows<0b11111>(opdock::kernel<&and_mul_bwd<Activation>>, Knobs::elementwise));
}

} // namespace

void add_gated(Plugin &plugin) {
    namespace ops = opdock::ops;
    add_halves<Gelu>(plugin, ops::geglu, ops::geglu_bwd);
    add_halves<Qgelu>(plugin, ops::qgeglu, ops::qgeglu_bwd);
    add_halves<Relu>(plugin, ops::reglu, ops::reglu_bwd);
    add_halves<Srelu>(plugin, ops::sreglu, ops::sreglu_bwd);
    add_halves<Silu>(plugin, ops::swiglu, ops::swiglu_bwd);
    plugin.add(ops::clamped_swiglu, any_float, {opdock::kernel<&clamped_forward>, Knobs::elementwise});
    plugin.add(ops::clamped_swiglu_bwd, any_float, {opdock::kernel<&clamped_backward>, Knobs::elementwise});
    add_tensors<Silu>(plugin, ops::silu_and_mul, ops::silu_and_mul_bwd);
    add_tensors<Gelu>(plugin, ops::gelu_and_mul, ops::gelu_and_mul_bwd);
}

} // namespace gpu
