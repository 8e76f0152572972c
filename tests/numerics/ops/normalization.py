"""The ops of opdock/ops/normalization.h."""

import formulas

from .cases import LONG, MANY, Op, ROWS

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
    saved = formulas.rmsnorm_fwd(forward["input"].values, forward["weight"].values)
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
    saved = formulas.layernorm_fwd(*(tensor.values for tensor in forward.values()))
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
        formulas.rmsnorm_fwd,
        {"output": "T", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("rsigma",),
        two_dtypes=True,
    ),
    "rmsnorm_bwd": Op(
        draw_rmsnorm_bwd,
        formulas.rmsnorm_bwd,
        {"grad_input": "T", "grad_weight": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight",),
        two_dtypes=True,
    ),
    "rmsnorm_bwd_add": Op(
        draw_rmsnorm_bwd_add,
        formulas.rmsnorm_bwd_add,
        {"grad_input": "T", "grad_weight": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight",),
        two_dtypes=True,
    ),
    "fused_add_rmsnorm_fwd": Op(
        draw_fused_add_rmsnorm,
        formulas.fused_add_rmsnorm_fwd,
        {"output": "T", "sum": "T", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("rsigma",),
        within={"rsigma": "T"},  # it may be that of the sum as stored
        two_dtypes=True,
    ),
    "layernorm_fwd": Op(
        draw_layernorm,
        formulas.layernorm_fwd,
        {"output": "T", "mu": "f32", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("mu", "rsigma"),
        two_dtypes=True,
    ),
    "layernorm_bwd": Op(
        draw_layernorm_bwd,
        formulas.layernorm_bwd,
        {"grad_input": "T", "grad_weight": "U", "grad_bias": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight", "grad_bias"),
        two_dtypes=True,
    ),
}
