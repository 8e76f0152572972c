"""The ops of opdock/ops/gated.h."""

import numpy as np

from .activation import gelu_bwd, qgelu_bwd, relu_bwd, silu_bwd, srelu_bwd, gelu, qgelu, relu, sigmoid, silu, srelu
from .cases import Op, ROWS, draw_inputs
from .sums import as_sum, scaled, Sum, total


def halves(x):
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


def gate_of(activation):
    """act(gate) * up, where act is named by the op."""

    def forward(gate, up):
        return {"output": scaled(activation(gate)["output"], up)}

    return forward


def gate_gradient_of(activation, derivative):
    def backward(grad, gate, up):
        return {
            "grad_gate": derivative(grad * up, gate)["grad_input"],
            "grad_up": scaled(activation(gate)["output"], grad),
        }

    return backward


silu_and_mul, silu_and_mul_bwd = gate_of(silu), gate_gradient_of(silu, silu_bwd)
gelu_and_mul, gelu_and_mul_bwd = gate_of(gelu), gate_gradient_of(gelu, gelu_bwd)


def glu(activation):
    return lambda input: gate_of(activation)(*halves(input))


def dglu(activation, derivative):
    def backward(grad, input):
        gradients = gate_gradient_of(activation, derivative)(grad, *halves(input))
        first, second = as_sum(gradients["grad_gate"]), as_sum(gradients["grad_up"])
        return {"grad_input": Sum(np.concatenate([first.value, second.value], -1), max(first.scale, second.scale))}

    return backward


geglu, geglu_bwd = glu(gelu), dglu(gelu, gelu_bwd)
qgeglu, qgeglu_bwd = glu(qgelu), dglu(qgelu, qgelu_bwd)
reglu, reglu_bwd = glu(relu), dglu(relu, relu_bwd)
sreglu, sreglu_bwd = glu(srelu), dglu(srelu, srelu_bwd)
swiglu, swiglu_bwd = glu(silu), dglu(silu, silu_bwd)


def clamped_swiglu(input, *, limit=7.0, alpha=1.702):
    first, second = halves(input)
    a, b = np.minimum(first, limit), np.clip(second, -limit, limit)
    gated = a * sigmoid(alpha * a)
    return {"output": total(gated * b, gated)}


def clamped_swiglu_bwd(grad, input, *, limit=7.0, alpha=1.702):
    first, second = halves(input)
    a, b = np.minimum(first, limit), np.clip(second, -limit, limit)
    s = sigmoid(alpha * a)
    above = grad * (b + 1) * np.where(first <= limit, 1, 0)
    by_first = total(above * s, above * alpha * a * s * (1 - s))
    by_second = grad * a * s * np.where(np.abs(second) <= limit, 1, 0)
    shifted = float(np.linalg.norm(np.ravel(grad * b)))  # b + 1 may cancel
    return {"grad_input": Sum(np.concatenate([by_first.value, by_second], -1), max(by_first.scale, shifted))}


# --- cases ---


GATED = ("geglu", "qgeglu", "reglu", "sreglu", "swiglu")


def even(shape):
    return shape[:-1] + (2 * shape[-1],)


def draw_halves(draw, shape, attributes):
    return {"input": draw("T", *even(shape))}


def draw_halves_bwd(draw, shape, attributes):
    return {"grad": draw("T", *shape), "input": draw("T", *even(shape))}


GLU = Op(draw_halves, {"output": "T"}, ROWS)
GLU_BWD = Op(draw_halves_bwd, {"grad_input": "T"}, ROWS)
GATE = Op(draw_inputs("gate", "up"), {"output": "T"}, ROWS)
GATE_BWD = Op(draw_inputs("grad", "gate", "up"), {"grad_gate": "T", "grad_up": "T"}, ROWS)

# Inputs from a normal distribution reach both limits.
CLAMPED_ATTRIBUTES = [{"limit": 1.0}, {}, {"limit": 0.5, "alpha": 1.0}]

OPS = {
    **{name: GLU for name in GATED},
    **{name + "_bwd": GLU_BWD for name in GATED},
    "clamped_swiglu": GLU._replace(attributes=CLAMPED_ATTRIBUTES),
    "clamped_swiglu_bwd": GLU_BWD._replace(attributes=CLAMPED_ATTRIBUTES),
    "silu_and_mul": GATE,
    "silu_and_mul_bwd": GATE_BWD,
    "gelu_and_mul": GATE,
    "gelu_and_mul_bwd": GATE_BWD,
}
