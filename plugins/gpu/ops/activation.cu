// The activations and their derivatives.
#include "activation.cuh"
#include "elementwise.cuh"
#include "ops/ops.hpp"

namespace gpu {
namespace {

template<class Activation>
struct Value {
    __device__ __forceinline__ void operator()(const float (&in)[1], float (&out)[1]) const {
        out[0] = Activation::value(in[0]);
    }
};

template<class Activation>
struct Derivative {
    __device__ __forceinline__ void operator()(const float (&in)[2], float (&out)[1]) const {
        out[0] = in[0] * Activation::both(in[1]).slope;
    }
};

template<class Activation>
opdock::Status forward(const opdock::Call &call) {
    return map<1, 1>(call, Value<Activation>{});
}

template<class Activation>
opdock::Status backward(const opdock::Call &call) {
    return map<2, 1>(call, Derivative<Activation>{});
}

// The activation and its derivative.
template<class Activation>
void add_both(Plugin &plugin, const opdock::OpDeclaration &value, const opdock::OpDeclaration &derivative) {
    plugin.add(value, any_float, by_rows<0b11>(opdock::kernel<&forward<Activation>>, Knobs::elementwise));
    plugin.add(derivative, any_float, by_rows<0b111>(opdock::kernel<&backward<Activation>>, Knobs::elementwise));
}

} // namespace

void add_activations(Plugin &plugin) {
    namespace ops = opdock::ops;
    add_both<Gelu>(plugin, ops::gelu, ops::gelu_bwd);
    add_both<Qgelu>(plugin, ops::qgelu, ops::qgelu_bwd);
    add_both<Relu>(plugin, ops::relu, ops::relu_bwd);
    add_both<Silu>(plugin, ops::silu, ops::silu_bwd);
    add_both<Srelu>(plugin, ops::srelu, ops::srelu_bwd);
}

} // namespace gpu
