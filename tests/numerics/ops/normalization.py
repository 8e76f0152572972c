"""The ops of opdock/ops/normalization.h."""

import numpy as np

from .cases import LONG, MANY, Op, ROWS, Special, draw_inputs
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


def l2norm_fwd(input, *, eps=1e-6):
    rnorm = 1 / np.sqrt((input**2).sum(-1) + eps)
    return {"output": input * rnorm[..., None], "rnorm": rnorm}


def l2norm_bwd(grad, input, rnorm):
    rnorm = rnorm[..., None]
    x = input * rnorm
    return {"grad_input": total(rnorm * grad, -rnorm * x * (grad * x).sum(-1, keepdims=True))}


def in_groups(x, groups):
    """Reshapes to three dimensions, the last of which holds the elements of a group."""
    return x.reshape(x.shape[0], groups, int(np.prod(x.shape[1:])) // groups)


def by_channel(x, like):
    """Broadcasts one value per channel, or per channel of each batch, over all elements of the channel."""
    return np.broadcast_to(x.reshape(*x.shape, *[1] * (like.ndim - 2)), like.shape)


def group_norm_fwd(input, weight, bias, *, groups, eps=1e-5):
    grouped = in_groups(input, groups)
    mu = mean(grouped)
    rsigma = 1 / np.sqrt(mean((grouped - mu) ** 2) + eps)
    normalized = ((grouped - mu) * rsigma).reshape(input.shape)
    return {
        "output": total(normalized * by_channel(weight, input), by_channel(bias, input)),
        "mu": Sum(mu[..., 0], float(np.linalg.norm(np.ravel(input))) / max(grouped.shape[-1], 1)),
        "rsigma": rsigma[..., 0],
    }


def group_norm_bwd(grad, input, mu, rsigma, weight):
    groups = mu.shape[1]
    rsigma = rsigma[..., None]
    x = (in_groups(input, groups) - mu[..., None]) * rsigma
    d = in_groups(grad * by_channel(weight, grad), groups)
    grad_input = total(rsigma * d, -rsigma * mean(d), -rsigma * x * mean(d * x))
    over_channels = lambda terms: total_over_rows(np.moveaxis(terms, 1, -1))
    return {
        "grad_input": Sum(grad_input.value.reshape(input.shape), grad_input.scale),
        "grad_weight": over_channels(grad * x.reshape(input.shape)),
        "grad_bias": over_channels(grad),
    }


# --- cases ---


NORM_ATTRIBUTES = [{}, {"eps": 1e-3}, {"zero_centered_gamma": True}, {"eps": 0.5, "zero_centered_gamma": True}]
NORM_BWD_ATTRIBUTES = [{}, {"zero_centered_gamma": True}]


def center(shape):
    """Rows far from 0 need a variance that is not a difference of large numbers; short rows may be nearly constant."""
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


def draw_l2norm_bwd(draw, shape, attributes):
    input = draw("T", *shape)
    return {"grad": draw("T", *shape), "input": input, "rnorm": draw.rounded("f32", l2norm_fwd(input.values)["rnorm"])}


# b, c, then the remaining dimensions. The second shape has large groups: where layouts differ, rsigma may belong to
# other rows, and a large one, as of small groups, would take results beyond the range of f16.
CHANNELS = [(2, 6, 17), (3, 12, 5), (3, 6), (1, 6, 5, 7), (0, 6, 4), (2, 6, 0), (2, 6, 4099)]
GROUPS = [{"groups": 3}, {"groups": 1, "eps": 0.1}, {"groups": 6}, {"groups": 2}]


def draw_group_norm(draw, shape, attributes):
    c = shape[1]
    return {"input": draw("T", *shape, around=center(shape)), "weight": draw("U", c), "bias": draw("U", c)}


def draw_group_norm_bwd(draw, shape, attributes):
    forward = draw_group_norm(draw, shape, attributes)
    saved = group_norm_fwd(*(tensor.values for tensor in forward.values()), groups=3)
    return {
        "grad": draw("T", *shape),
        "input": forward["input"],
        "mu": draw.rounded("f32", saved["mu"]),
        "rsigma": draw.rounded("f32", saved["rsigma"]),
        "weight": forward["weight"],
    }


def uneven_groups(draw_inputs, attributes, **shapes):
    def draw_uneven(draw):
        inputs = draw_inputs(draw, (2, 6, 5), attributes)
        of_7_channels = {name: draw("T", 2, 7, 5) for name in ("grad", "input") if name in inputs}
        return {**inputs, **of_7_channels, **{n: draw("U", 7) for n in ("weight", "bias") if n in inputs}}

    return Special("uneven", draw_uneven, "INVALID_ARGUMENT", "c%groups", attributes, refused=True, shapes=shapes)


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
        within={"rsigma": "T"},  # it may be computed from the stored sum
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
    "l2norm_fwd": Op(
        draw_inputs("input"),
        {"output": "T", "rnorm": "f32"},
        ROWS + LONG,
        [{}, {"eps": 0.5}],
        optional=("rnorm",),
    ),
    "l2norm_bwd": Op(draw_l2norm_bwd, {"grad_input": "T"}, ROWS + LONG),
    "group_norm_fwd": Op(
        draw_group_norm,
        {"output": "T", "mu": "f32", "rsigma": "f32"},
        CHANNELS,
        GROUPS,
        optional=("mu", "rsigma"),
        two_dtypes=True,
        special=[uneven_groups(draw_group_norm, {"groups": 3}, output=(2, 7, 5), mu=(2, 3), rsigma=(2, 3))],
    ),
    "group_norm_bwd": Op(
        draw_group_norm_bwd,
        {"grad_input": "T", "grad_weight": "U", "grad_bias": "U"},
        CHANNELS,
        optional=("grad_weight", "grad_bias"),
        two_dtypes=True,
        special=[uneven_groups(draw_group_norm_bwd, {}, grad_input=(2, 7, 5), grad_weight=(7,), grad_bias=(7,))],
    ),
}
