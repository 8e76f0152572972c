"""The ops of opdock/ops/linear.h."""

import numpy as np

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
