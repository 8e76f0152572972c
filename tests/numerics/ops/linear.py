"""The ops of opdock/ops/linear.h."""

import numpy as np

from .cases import Op
from .sums import Sum, total_over_rows


def product(a, b):
    """a @ b; the size of its terms is the norm of all products."""
    return Sum(a @ b, float(np.sqrt((a**2 @ b**2).sum())))


def matmul(a, b):
    return {"output": product(a, b)}


def linear_fwd(input, weight, bias=None):
    value, scale = product(input, weight.T)
    return {"output": Sum(value + (0 if bias is None else bias), scale)}


def linear_dgrad(grad, weight):
    return {"grad_input": product(grad, weight)}


def linear_wgrad(grad, input):
    rows = grad.reshape(int(np.prod(grad.shape[:-1])), grad.shape[-1])
    return {
        "grad_weight": product(rows.T, input.reshape(len(rows), input.shape[-1])),
        "grad_bias": total_over_rows(grad),
    }


# --- what they are tried on ---


# The leading dimensions of the input, k, n.
LINEAR_SHAPES = [
    (2, 3, 17, 9),
    (33, 129, 65),
    (1, 1, 1),
    (1, 1),
    (7, 5),
    (3, 5, 4),
    (64, 128, 96),
    (2, 4099, 19),  # more rows of the weight than the reference widens at a time
    (0, 8, 5),
    (2, 0, 3, 4),
    (4, 0, 3),
    (4, 8, 0),
    # Many rows, where the CPU plugin leaves the products to BLAS: one of everything, nothing to add up, more than one
    # block and one panel of widened rows.
    (20, 1, 1),
    (20, 0, 5),
    (5, 27, 1031, 70),
]


def draw_linear(draw, shape, attributes):
    *leading, k, n = shape
    return {"input": draw("T", *leading, k), "weight": draw("T", n, k), "bias": draw("T", n)}


def draw_linear_dgrad(draw, shape, attributes):
    *leading, k, n = shape
    return {"grad": draw("T", *leading, n), "weight": draw("T", n, k)}


def draw_linear_wgrad(draw, shape, attributes):
    *leading, k, n = shape
    return {"grad": draw("T", *leading, n), "input": draw("T", *leading, k)}


# The leading dimensions, m, k, n.
MATMUL_SHAPES = [
    (2, 3, 5, 17, 9),
    (33, 129, 65),
    (1, 1, 1),
    (7, 1, 5),
    (3, 2, 40, 1),
    (2, 21, 4, 33),
    (150, 17, 3, 5),
    (5, 4099, 131),
    (0, 3, 4, 5),
    (2, 0, 4, 5),
    (2, 3, 0, 5),
    (20, 0, 5),
    (2, 3, 4, 0),
    (2, 27, 1031, 70),
]


def draw_matmul(draw, shape, attributes):
    *leading, m, k, n = shape
    return {"a": draw("T", *leading, m, k), "b": draw("T", *leading, k, n)}


OPS = {
    "matmul": Op(draw_matmul, {"output": "T"}, MATMUL_SHAPES),
    "linear_dgrad": Op(draw_linear_dgrad, {"grad_input": "T"}, LINEAR_SHAPES),
    "linear_wgrad": Op(
        draw_linear_wgrad,
        {"grad_weight": "T", "grad_bias": "T"},
        LINEAR_SHAPES + [(66001, 2, 3)],
        optional=("grad_bias",),
    ),
    "linear_fwd": Op(
        draw_linear,
        {"output": "T"},
        LINEAR_SHAPES,
        optional=("bias",),
    ),
}
