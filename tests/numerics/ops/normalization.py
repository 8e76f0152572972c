"""The ops of opdock/ops/normalization.h."""

import numpy as np

from .cases import LONG, MANY, Op, ROWS
from .sums import mean, Sum, total, total_over_rows


def gamma(weight, zero_centered_gamma):
    return 1 + weight if zero_centered_gamma else weight


def rmsnorm_fwd(input, weight, *, eps=1e-5, zero_centered_gamma=False):
    rsigma = 1 / np.sqrt(mean(input**2) + eps)
    return {"output": input * rsigma * gamma(weight, zero_centered_gamma), "rsigma": rsigma[..., 0]}


def rmsnorm_bwd(grad, input, rsigma, weight, *, zero_centered_gamma=False):
    rsigma = rsigma[..., None]
    normalized = input * rsigma
    grad_normalized = grad * gamma(weight, zero_centered_gamma)
    return {
        "grad_input": total(
            rsigma * grad_normalized, -rsigma * normalized * mean(grad_normalized * normalized)
        ),
        "grad_weight": total_over_rows(grad * normalized),
    }


def rmsnorm_bwd_add(grad, input, add, rsigma, weight, **attributes):
    gradients = rmsnorm_bwd(grad, input, rsigma, weight, **attributes)
    without = gradients["grad_input"]
    added = Sum(without.value + add, max(without.scale, float(np.linalg.norm(np.ravel(add)))))
    return {**gradients, "grad_input": added}


def fused_add_rmsnorm_fwd(input, residual, weight, *, eps=1e-5, zero_centered_gamma=False):
    added = input + residual
    normalized = rmsnorm_fwd(added, weight, eps=eps, zero_centered_gamma=zero_centered_gamma)
    return {"output": normalized["output"], "sum": total(input, residual), "rsigma": normalized["rsigma"]}


def layernorm_fwd(input, weight, bias, *, eps=1e-5, zero_centered_gamma=False):
    mu = mean(input)
    rsigma = 1 / np.sqrt(mean((input - mu) ** 2) + eps)
    scaled = (input - mu) * rsigma * gamma(weight, zero_centered_gamma)
    return {
        "output": total(scaled, np.broadcast_to(bias, scaled.shape)),
        "mu": Sum(mu[..., 0], float(np.linalg.norm(np.ravel(input))) / max(input.shape[-1], 1)),
        "rsigma": rsigma[..., 0],
    }


def layernorm_bwd(grad, input, mu, rsigma, weight, *, zero_centered_gamma=False):
    rsigma = rsigma[..., None]
    normalized = (input - mu[..., None]) * rsigma
    grad_normalized = grad * gamma(weight, zero_centered_gamma)
    return {
        "grad_input": total(
            rsigma * grad_normalized,
            -rsigma * mean(grad_normalized),
            -rsigma * normalized * mean(grad_normalized * normalized),
        ),
        "grad_weight": total_over_rows(grad * normalized),
        "grad_bias": total_over_rows(grad),
    }


# --- what they are tried on ---


NORM_ATTRIBUTES = [{}, {"eps": 1e-3}, {"zero_centered_gamma": True}, {"eps": 0.5, "zero_centered_gamma": True}]
NORM_BWD_ATTRIBUTES = [{}, {"zero_centered_gamma": True}]


def center(shape):
    """Rows far from 0 need a variance that is not a difference of large numbers; short ones may be nearly constant."""
    return 10.0 if shape[-1] > 16 else 0.0


def draw_rmsnorm(draw, shape, attributes):
    return {"input": draw("T", *shape), "weight": draw("U", shape[-1])}


def draw_rmsnorm_bwd_add(draw, shape, attributes):
    inputs = draw_rmsnorm_bwd(draw, shape, attributes)
    return {"grad": inputs["grad"], "input": inputs["input"], "add": draw("T", *shape), **inputs}


def draw_fused_add_rmsnorm(draw, shape, attributes):
    return {"input": draw("T", *shape), "residual": draw("T", *shape), "weight": draw("U", shape[-1])}


def draw_rmsnorm_bwd(draw, shape, attributes):
    forward = draw_rmsnorm(draw, shape, attributes)
    saved = rmsnorm_fwd(forward["input"].values, forward["weight"].values)
    return {
        "grad": draw("T", *shape),
        "input": forward["input"],
        "rsigma": draw.rounded("f32", saved["rsigma"]),
        "weight": forward["weight"],
    }


def draw_layernorm(draw, shape, attributes):
    n = shape[-1]
    return {"input": draw("T", *shape, around=center(shape)), "weight": draw("U", n), "bias": draw("U", n)}


def draw_layernorm_bwd(draw, shape, attributes):
    forward = draw_layernorm(draw, shape, attributes)
    saved = layernorm_fwd(*(tensor.values for tensor in forward.values()))
    return {
        "grad": draw("T", *shape),
        "input": forward["input"],
        "mu": draw.rounded("f32", saved["mu"]),
        "rsigma": draw.rounded("f32", saved["rsigma"]),
        "weight": forward["weight"],
    }


OPS = {
    "rmsnorm_fwd": Op(
        draw_rmsnorm,
        {"output": "T", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("rsigma",),
        two_dtypes=True,
    ),
    "rmsnorm_bwd": Op(
        draw_rmsnorm_bwd,
        {"grad_input": "T", "grad_weight": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight",),
        two_dtypes=True,
    ),
    "rmsnorm_bwd_add": Op(
        draw_rmsnorm_bwd_add,
        {"grad_input": "T", "grad_weight": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight",),
        two_dtypes=True,
    ),
    "fused_add_rmsnorm_fwd": Op(
        draw_fused_add_rmsnorm,
        {"output": "T", "sum": "T", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("rsigma",),
        within={"rsigma": "T"},  # it may be that of the sum as stored
        two_dtypes=True,
    ),
    "layernorm_fwd": Op(
        draw_layernorm,
        {"output": "T", "mu": "f32", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("mu", "rsigma"),
        two_dtypes=True,
    ),
    "layernorm_bwd": Op(
        draw_layernorm_bwd,
        {"grad_input": "T", "grad_weight": "U", "grad_bias": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight", "grad_bias"),
        two_dtypes=True,
    ),
}
