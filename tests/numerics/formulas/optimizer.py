"""The ops of opdock/ops/optimizer.h."""

import numpy as np

from .sums import Sum, total


def lists(rows):
    """A list of tuples as a tuple of lists."""
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
