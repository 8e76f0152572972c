"""The ops of opdock/ops/activation.h."""

import numpy as np

from .cases import LONG, MANY, Op, ROWS, draw_inputs
from .sums import Sum, total, total_over_rows


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))  # does not overflow


GELU_SCALE = np.sqrt(2 / np.pi)
GELU_CUBIC = 0.044715


def gelu_tanh(x):
    return np.tanh(GELU_SCALE * (x + GELU_CUBIC * x**3))


def gelu(input):
    return {"output": total(0.5 * input, 0.5 * input * gelu_tanh(input))}


def gelu_bwd(grad, input):
    t = gelu_tanh(input)
    inner = GELU_SCALE * (1 + 3 * GELU_CUBIC * input**2)
    return {"grad_input": total(0.5 * grad, 0.5 * grad * t, 0.5 * grad * input * (1 - t**2) * inner)}


def silu(input):
    return {"output": input * sigmoid(input)}


def silu_bwd(grad, input):
    s = sigmoid(input)
    return {"grad_input": total(grad * s, grad * input * s * (1 - s))}


def qgelu(input):
    return {"output": input * sigmoid(1.702 * input)}


def qgelu_bwd(grad, input):
    s = sigmoid(1.702 * input)
    return {"grad_input": total(grad * s, grad * 1.702 * input * s * (1 - s))}


def relu(input):
    return {"output": np.maximum(input, 0)}


def relu_bwd(grad, input):
    return {"grad_input": np.where(input > 0, grad, 0)}


def srelu(input):
    return {"output": np.maximum(input, 0) ** 2}


def srelu_bwd(grad, input):
    return {"grad_input": 2 * grad * np.maximum(input, 0)}


def with_bias(derivative):
    def backward(grad, input):
        grad_input = derivative(grad, input)["grad_input"]
        terms = grad_input.value if isinstance(grad_input, Sum) else grad_input
        return {"grad_bias": total_over_rows(terms), "grad_input": grad_input}

    return backward


gelu_bwd_bias, qgelu_bwd_bias, relu_bwd_bias = with_bias(gelu_bwd), with_bias(qgelu_bwd), with_bias(relu_bwd)
silu_bwd_bias, srelu_bwd_bias = with_bias(silu_bwd), with_bias(srelu_bwd)


# --- cases ---


ACTIVATIONS = ("gelu", "qgelu", "relu", "silu", "srelu")
FORWARD = Op(draw_inputs("input"), {"output": "T"}, ROWS, in_place={"output": "input"})
BACKWARD = Op(draw_inputs("grad", "input"), {"grad_input": "T"}, ROWS, in_place={"grad_input": "grad"})
BACKWARD_WITH_BIAS = Op(
    draw_inputs("grad", "input"), {"grad_bias": "T", "grad_input": "T"}, ROWS + LONG + MANY
)

OPS = {
    **{name: FORWARD for name in ACTIVATIONS},
    **{name + "_bwd": BACKWARD for name in ACTIVATIONS},
    **{name + "_bwd_bias": BACKWARD_WITH_BIAS for name in ACTIVATIONS},
}
