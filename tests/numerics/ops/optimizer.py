"""The ops of opdock/ops/optimizer.h."""

import numpy as np

from .cases import Op, Special, draw_inputs
from .sums import Sum, total


def lists(rows):
    """Transposes a list of tuples into lists, one per output."""
    return [list(column) for column in zip(*rows)]


def multi_tensor_adam(
    grads,
    params,
    exp_avg,
    exp_avg_sq,
    lr,
    step,
    noop,
    *,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    weight_decay=0.0,
    decoupled=True,
):
    if noop is not None and noop[0] != 0:
        return {"params": params, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq, "step": step}
    steps = step + 1

    def update(g, p, m, v):
        if not decoupled:
            g = g + weight_decay * p
        m = total(beta1 * m, (1 - beta1) * g)
        v = beta2 * v + (1 - beta2) * g**2
        change = lr * (m.value / (1 - beta1**steps)) / (np.sqrt(v / (1 - beta2**steps)) + eps)
        return total(p * (1 - lr * weight_decay if decoupled else 1), -change), m, v

    params, exp_avg, exp_avg_sq = lists(map(update, grads, params, exp_avg, exp_avg_sq))
    return {"params": params, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq, "step": steps}


def multi_tensor_sgd(
    grads,
    params,
    momentum_buffers,
    lr,
    noop,
    *,
    momentum=0.0,
    dampening=0.0,
    weight_decay=0.0,
    nesterov=False,
    first_run=False,
):
    if noop is not None and noop[0] != 0:
        return {"params": params, "momentum_buffers": momentum_buffers}

    def update(g, p, buffer):
        step = total(g, weight_decay * p)
        if momentum:
            taken = Sum(step.value * (1 - dampening), step.scale * (1 - dampening))
            buffer = step if first_run else total(momentum * buffer, taken.value)
            step = Sum(step.value + momentum * buffer.value, buffer.scale + step.scale) if nesterov else buffer
        terms = max(float(np.linalg.norm(p)), float(lr[0]) * step.scale)
        return Sum(p - lr * step.value, terms), buffer

    params, momentum_buffers = lists(map(update, grads, params, momentum_buffers))
    return {"params": params, "momentum_buffers": momentum_buffers}


def multi_tensor_l2norm(inputs):
    return {"norm": np.sqrt(sum((x**2).sum() for x in inputs)).reshape(1)}


def multi_tensor_scale(tensors, scale, found_inf):
    tensors = [x * scale for x in tensors]
    if found_inf is not None and not all(np.isfinite(x).all() for x in tensors):
        found_inf = np.ones_like(found_inf)
    return {"tensors": tensors, "found_inf": found_inf}


# --- cases ---


# Sizes of the tensors of a list; the CPU plugin splits long ones.
LISTS = [(17, 1, 4099, 5), (257,), (1,), (0, 3, 0), (0,), (5, 66001, 2)]


def draw_list(draw, dtype, sizes):
    return [draw(dtype, size) for size in sizes]


def draw_flag(draw, flag):
    return draw.rounded("i32", [flag])


def draw_adam(draw, sizes, attributes, noop=0):
    exp_avg = draw_list(draw, "f32", sizes)
    # The mean of squares is at least the square of the mean.
    exp_avg_sq = [m.values**2 + draw("f32", len(m.values)).values ** 2 for m in exp_avg]
    return {
        "grads": draw_list(draw, "T", sizes),
        "params": draw_list(draw, "U", sizes),
        "exp_avg": exp_avg,
        "exp_avg_sq": [draw.rounded("f32", v) for v in exp_avg_sq],
        "lr": draw.rounded("f32", draw.rng.uniform(0.001, 0.1, 1)),
        "step": draw.rounded("f32", draw.rng.integers(0, 50, 1)),
        "noop": draw_flag(draw, noop),
    }


def draw_sgd(draw, sizes, attributes, noop=0):
    return {
        "grads": draw_list(draw, "T", sizes),
        "params": draw_list(draw, "U", sizes),
        "momentum_buffers": draw_list(draw, "f32", sizes),
        "lr": draw.rounded("f32", draw.rng.uniform(0.001, 0.1, 1)),
        "noop": draw_flag(draw, noop),
    }


def idle(draw_inputs):
    return [Special("noop", lambda draw: draw_inputs(draw, (7, 33), {}, noop=1))]


def large_gradients(draw):
    """Squares of bf16 and f32 values exceed the range of f32, but their average is within it."""
    inputs = draw_adam(draw, (9,), {})
    largest = 1e20 if draw.dtypes["T"] != "f16" else 6e4
    return {**inputs, "grads": [draw.rounded("T", np.full(9, largest))]}


def draw_norm(draw, sizes, attributes):
    return {"inputs": draw_list(draw, "T", sizes)}


def far_from_1(draw):
    """Squares beyond the range of f32, in both directions."""
    large, small = (1e25, 1e-25) if draw.dtypes["T"] != "f16" else (6e4, 1e-6)
    return {"inputs": [draw.rounded("T", np.full(3, large)), draw.rounded("T", np.full(100, small))]}


def near_0(draw):
    return {"inputs": [draw.rounded("T", np.full(5, 1e-25 if draw.dtypes["T"] != "f16" else 1e-6))]}


def draw_scale(draw, sizes, attributes):
    return {
        "tensors": draw_list(draw, "T", sizes),
        "scale": draw("f32", 1),
        "found_inf": draw_flag(draw, draw.rng.integers(0, 2)),
    }


def scale_no_numbers(draw):
    return {
        "tensors": [draw("T", 40), draw.rounded("T", [0.5, np.nan, np.inf])],
        "scale": draw("f32", 1),
        "found_inf": draw_flag(draw, 0),
    }


OPS = {
    "multi_tensor_adam": Op(
        draw_adam,
        {},
        LISTS,
        [
            {},
            {"weight_decay": 0.1},
            {"weight_decay": 0.1, "decoupled": False},
            {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3},
        ],
        optional=("noop",),
        changed={"params": "U", "exp_avg": "f32", "exp_avg_sq": "f32", "step": "f32"},
        two_dtypes=True,
        special=[*idle(draw_adam), Special("large gradients", large_gradients)],
    ),
    "multi_tensor_sgd": Op(
        draw_sgd,
        {},
        LISTS,
        [
            {},
            {"momentum": 0.9},
            {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
            {"momentum": 0.8, "nesterov": True},
            {"momentum": 0.9, "dampening": 0.5, "first_run": True},
        ],
        optional=("noop",),
        changed={"params": "U", "momentum_buffers": "f32"},
        two_dtypes=True,
        special=idle(draw_sgd),
    ),
    "multi_tensor_l2norm": Op(
        draw_norm,
        {"norm": "f32"},
        LISTS,
        special=[Special("far from 1", far_from_1), Special("near 0", near_0)],
    ),
    "multi_tensor_scale": Op(
        draw_scale,
        {},
        LISTS,
        optional=("found_inf",),
        changed={"tensors": "T", "found_inf": "i32"},
        special=[Special("not numbers", scale_no_numbers)],
    ),
}
